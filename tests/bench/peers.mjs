// This engine beside llama.cpp and ik_llama.cpp on the same GGUF files, by turns; tests/bench/build-peers.sh builds those two.
// Each round runs every program on every file, each case `--each` times in one process, whose median counts; rounds are appended to
// a file of JSON lines, so that they can be spread over the quiet minutes of a machine, and the table is of medians over all of them.
// Streams take turns within a round too, and each time through them counts as a round of theirs: all programs load the file first, then
// one at a time goes on to the end of one case while the others are stopped, for the memory of a machine may have another speed seconds
// later. `--prompt 0` leaves prompts out. The last columns have the bytes a second that each program reads, taking Sluice's count of a
// token's bytes for all of them, and the memory's bandwidth as measured around Sluice's cases.
//
//   node tests/bench/peers.mjs --peers FOLDER --isa avx2|avx512vnni --out FILE [--rounds 5] [--each 1] [--prompt 512] [--streams 1,4,8,16]
//     [--before 32] [--tokens 32] [--sluice PROGRAM] [--without NAME]... MODEL.gguf...
//   node tests/bench/peers.mjs --out FILE --table
import { spawn, spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const top = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const { values: v, positionals: models } = parseArgs({ allowPositionals: true, options: {
  peers: { type: 'string' }, isa: { type: 'string', default: 'avx2' }, out: { type: 'string' }, rounds: { type: 'string', default: '5' }, each: { type: 'string', default: '1' },
  sluice: { type: 'string', default: path.join(top, 'build/release/sluice') }, streams: { type: 'string', default: '1,4,8,16' },
  prompt: { type: 'string', default: '512' }, tokens: { type: 'string', default: '32' }, before: { type: 'string', default: '32' }, table: { type: 'boolean', default: false },
  without: { type: 'string', multiple: true, default: [] } } });
const threads = String(os.availableParallelism()), streams = v.streams.split(',').map(Number), before = Number(v.before), each = Number(v.each);
const median = (values) => {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b), half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
};

function run(program, args) {
  const done = spawnSync(program, args, { encoding: 'utf8', maxBuffer: 1 << 26 });
  if (done.status !== 0) throw new Error(`${program} ${args.join(' ')}: ${done.signal ?? done.status}\n${done.stderr.slice(-600)}`);
  return done.stdout;
}

const children = new Set(); // one that is stopped would outlive this program, and keep its memory
process.on('exit', () => { for (const child of children) child.kill('SIGKILL'); });
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));

// A program that is stopped after each line for which `pauses` is true, until turn() lets it go on to the next such line, or to its end.
function start(program, args, pauses) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] }), all = { stdout: '', stderr: '', lines: [] };
  let next, done = false;
  children.add(child);
  for (const stream of ['stdout', 'stderr']) {
    let rest = '';
    child[stream].setEncoding('utf8').on('data', (text) => {
      all[stream] += text;
      const lines = (rest + text).split('\n');
      rest = lines.pop();
      for (const line of lines) {
        all.lines.push(line);
        if (pauses(line)) {
          child.kill('SIGSTOP');
          next?.();
        }
      }
    });
  }
  const ended = new Promise((resolve, reject) => child.on('error', reject).on('close', (status, signal) => {
    done = true;
    children.delete(child);
    return status === 0 ? resolve() : reject(new Error(`${program} ${args.join(' ')}: ${signal ?? status}\n${all.stderr.slice(-600)}`));
  }));
  const turn = () => {
    const paused = new Promise((resolve) => { next = resolve; });
    child.kill('SIGCONT');
    return Promise.race([paused, ended]);
  };
  return { all, turn, done: () => done, first: Promise.race([new Promise((resolve) => { next = resolve; }), ended]) };
}

// Each has prompts(model), which gives tokens a second; streams(model), a program that pauses before each case of its streams except in
// the first time through them, which does not count; and told(all), which gives { decode_1, decode_4, ... } and what else the program
// says of itself for each of the other times.
const ours = (activations) => {
  const args = (model) => ['bench', '--model', model, '--backend', 'cpu', '--isa', v.isa, '--activations', activations, '--threads', threads, '--tokens', v.tokens, '--repeats', v.each, '--json'];
  return {
    prompts: (model) => JSON.parse(run(v.sluice, [...args(model), '--prompts', v.prompt, '--depths', '0', '--batches', ''])).cases[0].tokens_per_s.median,
    streams: (model) => start(v.sluice, [...args(model), '--probe', '--prompts', '', '--depths', String(before), '--batches', v.streams], (line) => /: repeat \d+, case \d+$/.test(line)),
    told({ stdout }) {
      const { cases, device } = JSON.parse(stdout);
      return cases[0].each.map((_, round) => {
        const all = { device, bound: {}, bandwidth: {}, bytes: {} };
        for (const c of cases) {
          const what = `decode_${c.batch}`, bytes = (c.weight_bytes_per_step + c.kv_bytes_per_step) / c.batch; // of a token
          all[what] = c.each[round].tokens_per_s;
          all.bandwidth[what] = c.each[round].read_bandwidth_bytes_per_s;
          all.bytes[what] = bytes;
          all.bound[what] = all[what] * bytes / all.bandwidth[what];
        }
        return all;
      });
    },
  };
};
// `single` and `batched` are the options that make it fastest, as its own programs take them.
const peer = (name, single, batched) => {
  const bin = path.join(v.peers ?? '', name, `build-${v.isa}`, 'bin');
  const cells = (line) => { const all = line.split('|').map((cell) => cell.trim()); return /^\d+$/.test(all[1] ?? '') ? all : null; };
  return {
    prompts: (model) => median(JSON.parse(run(path.join(bin, 'llama-bench'), ['-m', model, '-t', threads, '-p', v.prompt, '-n', '0', '-r', v.each, '-o', 'json', ...single]))[0].samples_ts),
    streams(model) {
      const room = Math.max(...streams) * (before + Number(v.tokens));
      let row = 0;
      return start(path.join(bin, 'llama-batched-bench'), ['-m', model, '-t', threads, '-c', String(room),
        '-npp', String(before), '-ntg', v.tokens, '-npl', Array(each + 1).fill(v.streams).join(), ...batched], (line) => cells(line) && ++row >= streams.length && row < (each + 1) * streams.length);
    },
    told({ lines }) {
      const rows = lines.map(cells).filter(Boolean).slice(streams.length), rounds = Array.from({ length: each }, () => ({}));
      rows.forEach((row, i) => { rounds[Math.floor(i / streams.length)][`decode_${row[3]}`] = Number(row[8]); });
      return rounds;
    },
  };
};
const programs = Object.fromEntries(Object.entries({
  sluice: ours('16'),
  'sluice, 8-bit activations': ours('8'),
  'llama.cpp': peer('llama.cpp', ['-fa', '1'], ['-fa', 'on']),
  'ik_llama.cpp': peer('ik_llama.cpp', ['-fa', '1', '-fmoe', '1', '-rtr', '1'], ['-fa', 'on', '-rtr']),
}).filter(([name]) => !v.without.includes(name)));

if (!v.table) {
  for (let round = 0; round < Number(v.rounds); round++) for (const model of models) {
    const about = { isa: v.isa, model: path.basename(model), load: os.loadavg()[0] };
    const names = Object.keys(programs), order = names.map((_, i) => names[(i + round) % names.length]); // another begins each time
    const prompts = {}, running = {};
    if (Number(v.prompt)) for (const name of order) prompts[name] = { pp: programs[name].prompts(model) };
    for (const name of order) {
      running[name] = programs[name].streams(model);
      await running[name].first;
    }
    while (order.some((name) => !running[name].done())) for (const name of order) if (!running[name].done()) await running[name].turn();
    const told = Object.fromEntries(order.map((name) => [name, programs[name].told(running[name].all)]));
    for (let i = 0; i < each; i++) // prompts are measured once
      appendFileSync(v.out, `${JSON.stringify({ at: new Date().toISOString(), ...about, ...Object.fromEntries(order.map((name) => [name, { ...(i ? {} : prompts[name]), ...told[name][i] }])) })}\n`);
  }
}

const rounds = existsSync(v.out) ? readFileSync(v.out, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line)) : [];
const say = (n, digits) => (Number.isFinite(n) ? n.toFixed(digits) : '-');
const own = Object.keys(programs).filter((name) => name.startsWith('sluice')), others = Object.keys(programs).filter((name) => !own.includes(name));
console.log(`| kernels, file | what | ${Object.keys(programs).join(' | ')} | of the bound | to the better peer (least, most) | at the bound | GB/s read: ${Object.keys(programs).join(', ')}; the memory | rounds |\n| --- | --- |${' --- |'.repeat(Object.keys(programs).length + 5)}`);
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
    const rate = (name) => say(median(mine.map((r) => r[name]?.[what] * r[own[0]]?.bytes?.[what])) / 1e9, 0);
    const read = what === 'pp' ? '-' : `${Object.keys(programs).map(rate).join(', ')}; ${say(median(mine.map((r) => r[own[0]]?.bandwidth?.[what])) / 1e9, 0)}`;
    console.log(`| ${key} | ${what === 'pp' ? `pp${v.prompt}` : what.replace('decode_', 'decode, streams: ')} | ${Object.keys(programs).map(of).join(' | ')} | ${own.map(bound).join('; ')} | ${own.map(ratio).join('; ')} | ${own.map(most).join('; ')} | ${read} | ${mine.filter((r) => Number.isFinite(r[own[0]]?.[what])).length} |`);
  }
}
