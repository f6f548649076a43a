// This engine beside llama.cpp and ik_llama.cpp on the same GGUF files, by turns; tests/bench/build-peers.sh builds those two.
// Each round runs every program on every file, each case `--each` times in one process, whose median counts; rounds are appended to
// a file of JSON lines, so that they can be spread over the quiet minutes of a machine, and the table is of medians over all of them.
//
//   node tests/bench/peers.mjs --peers FOLDER --isa avx2|avx512vnni --out FILE [--rounds 5] [--each 1] [--sluice PROGRAM] [--without NAME]... MODEL.gguf...
//   node tests/bench/peers.mjs --out FILE --table
import { spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const top = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const { values: v, positionals: models } = parseArgs({ allowPositionals: true, options: {
  peers: { type: 'string' }, isa: { type: 'string', default: 'avx2' }, out: { type: 'string' }, rounds: { type: 'string', default: '5' }, each: { type: 'string', default: '1' },
  sluice: { type: 'string', default: path.join(top, 'build/release/sluice') }, streams: { type: 'string', default: '1,4,8,16' },
  prompt: { type: 'string', default: '512' }, tokens: { type: 'string', default: '32' }, table: { type: 'boolean', default: false },
  without: { type: 'string', multiple: true, default: [] } } });
const threads = String(os.availableParallelism()), streams = v.streams.split(',').map(Number), before = 32, each = Number(v.each);
const median = (values) => {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b), half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
};

function run(program, args) {
  const done = spawnSync(program, args, { encoding: 'utf8', maxBuffer: 1 << 26 });
  if (done.status !== 0) throw new Error(`${program} ${args.join(' ')}: ${done.signal ?? done.status}\n${done.stderr.slice(-600)}`);
  return done;
}

// Each gives { pp, decode_1, decode_4, ... } in tokens a second, and what else it says of itself.
const ours = (activations) => (model) => {
  const args = ['bench', '--model', model, '--backend', 'cpu', '--isa', v.isa, '--activations', activations, '--threads', threads, '--tokens', v.tokens, '--json'];
  const told = JSON.parse(run(v.sluice, [...args, '--repeats', v.each, '--prompts', v.prompt, '--depths', '0', '--batches', '']).stdout);
  const decoded = JSON.parse(run(v.sluice, [...args, '--repeats', v.each, '--prompts', '', '--depths', String(before), '--batches', v.streams]).stdout);
  const all = { pp: told.cases[0].tokens_per_s.median, device: told.device, bandwidth: decoded.read_bandwidth_bytes_per_s, bound: {} };
  for (const c of decoded.cases) {
    all[`decode_${c.batch}`] = c.tokens_per_s.median;
    all.bound[`decode_${c.batch}`] = c.share_of_bound;
  }
  return all;
};
// `single` and `batched` are the options that make it fastest, as its own programs take them.
const peer = (name, single, batched) => (model) => {
  const bin = path.join(v.peers, name, `build-${v.isa}`, 'bin');
  const told = JSON.parse(run(path.join(bin, 'llama-bench'), ['-m', model, '-t', threads, '-p', v.prompt, '-n', '0', '-r', v.each, '-o', 'json', ...single]).stdout);
  const all = { pp: median(told[0].samples_ts) }, decoded = {};
  const room = Math.max(...streams) * (before + Number(v.tokens));
  const { stdout, stderr } = run(path.join(bin, 'llama-batched-bench'), ['-m', model, '-t', threads, '-c', String(room),
    '-npp', String(before), '-ntg', v.tokens, '-npl', Array(each).fill(v.streams).join(), ...batched]);
  for (const line of `${stdout}\n${stderr}`.split('\n')) { // one of the two prints its table to stderr
    const cells = line.split('|').map((cell) => cell.trim());
    if (/^\d+$/.test(cells[1] ?? '')) (decoded[`decode_${cells[3]}`] ??= []).push(Number(cells[8]));
  }
  for (const [what, values] of Object.entries(decoded)) all[what] = median(values);
  return all;
};
const programs = Object.fromEntries(Object.entries({
  sluice: ours('16'),
  'sluice, 8-bit activations': ours('8'),
  'llama.cpp': peer('llama.cpp', ['-fa', '1'], ['-fa', 'on']),
  'ik_llama.cpp': peer('ik_llama.cpp', ['-fa', '1', '-fmoe', '1', '-rtr', '1'], ['-fa', 'on', '-rtr']),
}).filter(([name]) => !v.without.includes(name)));

if (!v.table) {
  for (let round = 0; round < Number(v.rounds); round++) for (const model of models) {
    const line = { at: new Date().toISOString(), isa: v.isa, model: path.basename(model), load: os.loadavg()[0] };
    const order = Object.keys(programs);
    for (let i = 0; i < order.length; i++) { // another begins each time
      const name = order[(i + round) % order.length];
      line[name] = programs[name](model);
    }
    appendFileSync(v.out, `${JSON.stringify(line)}\n`);
  }
}

const rounds = existsSync(v.out) ? readFileSync(v.out, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line)) : [];
const say = (n, digits) => (Number.isFinite(n) ? n.toFixed(digits) : '-');
const own = Object.keys(programs).filter((name) => name.startsWith('sluice')), others = Object.keys(programs).filter((name) => !own.includes(name));
console.log(`| kernels, file | what | ${Object.keys(programs).join(' | ')} | of the bound | to the better peer (least, most) | at the bound | rounds |\n| --- | --- |${' --- |'.repeat(Object.keys(programs).length + 4)}`);
for (const key of new Set(rounds.map((r) => `${r.isa}, ${r.model}`))) {
  const mine = rounds.filter((r) => `${r.isa}, ${r.model}` === key);
  for (const what of [...new Set(mine.flatMap((r) => Object.keys(r[own[0]] ?? {})))].filter((k) => k === 'pp' || k.startsWith('decode_'))) {
    const of = (name) => say(median(mine.map((r) => r[name]?.[what])), 1);
    const best = (r) => { const all = others.map((name) => r[name]?.[what]).filter(Number.isFinite); return all.length ? Math.max(...all) : NaN; };
    const ratios = (name) => mine.map((r) => r[name]?.[what] / best(r));
    const ratio = (name) => {
      const all = ratios(name).filter(Number.isFinite);
      return `${say(median(all), 2)} (${say(Math.min(...all), 2)}, ${say(Math.max(...all), 2)})`;
    };
    // What the ratio would be if ours read as fast as the probe all the time; prompts have no such bound.
    const most = (name) => say(median(ratios(name).map((x, n) => x / mine[n][name]?.bound?.[what])), 2);
    const bound = (name) => { const share = median(mine.map((r) => r[name]?.bound?.[what])); return Number.isFinite(share) ? `${say(100 * share, 0)} %` : '-'; };
    console.log(`| ${key} | ${what === 'pp' ? `pp${v.prompt}` : what.replace('decode_', 'decode, streams: ')} | ${Object.keys(programs).map(of).join(' | ')} | ${own.map(bound).join('; ')} | ${own.map(ratio).join('; ')} | ${own.map(most).join('; ')} | ${mine.length} |`);
  }
}
