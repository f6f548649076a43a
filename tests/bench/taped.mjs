// What drafts gain through the whole server on a model of random weights that writes given texts (taped_engine.c): plain and with drafts by turns.
// SETS/BEFORE as in drafts.c. Run: make -C build/release tests/bench/taped_engine; node tests/bench/texts.mjs > FILE; node tests/bench/taped.mjs
// --texts FILE --model DIR [--runs "repeats/own code-b/code-a"] [--routing calibrated] [--engine "--strategy ssd_streaming"] [--seconds 60] [--tokens 64]
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { program, start, top } from '../api/harness.mjs';

const flag = (name, otherwise) => { const at = process.argv.indexOf(`--${name}`); return at < 0 ? otherwise : process.argv[at + 1]; };
const texts = JSON.parse(readFileSync(flag('texts'), 'utf8')), tokens = Number(flag('tokens', 64)), seconds = Number(flag('seconds', 60));
const bin = mkdtempSync(path.join(os.tmpdir(), 'slt-taped-'));
for (const name of ['sluice-worker', 'sluice-toolhost']) symlinkSync(program(name), path.join(bin, name));
symlinkSync(path.join(top, 'build/release/tests/bench/taped_engine'), path.join(bin, 'sluice-engine'));
Object.assign(process.env, { SLUICE_TEXTS: path.resolve(flag('texts')), SLUICE_VOCAB: path.join(top, 'engine/demo-model'), SLUICE_ROUTING: flag('routing', 'model') });
const s = await start({ model: path.resolve(flag('model')), args: ['--bin-dir', bin, '--draft-model', 'off', ...flag('engine', '').split(' ').filter(Boolean)] });

const middle = (list, share = 0.5) => [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.max(0, Math.floor(list.length * share)))];
let asked = 0;
async function ask(text, speculate, salt) {
  const { status, body } = await s.json('POST', '/v1/completions', { prompt: text.prompt, max_tokens: tokens, temperature: 0, ignore_eos: true, cache_salt: salt, speculate });
  assert.equal(status, 200, JSON.stringify(body));
  const said = body.choices[0].text, n = Math.min(said.length, text.answer.length);
  assert.equal(said.slice(0, n), text.answer.slice(0, n)); // else the tape was not recognised
  return { ms: body.timings.decode_ms, n: body.usage.completion_tokens - 1, experts: body.timings.experts, ...body.timings.speculation };
}
for (const run of flag('runs', 'repeats/own').split(' ')) {
  const [sets, before] = run.split('/').map((list) => list.split(',')), own = before[0] === 'own', end = Date.now() + 1000 * seconds;
  for (const text of texts.filter((t) => before.includes(t.set))) await ask(text, 'auto', run);
  const sum = { off: [], auto: [] };
  for (const [i, text] of texts.filter((t) => sets.includes(t.set)).entries()) {
    if (Date.now() > end) break;
    for (const mode of i % 2 ? ['auto', 'off'] : ['off', 'auto']) sum[mode].push(await ask(text, mode, own || mode === 'off' ? `own ${asked++}` : run));
  }
  const all = (mode, what) => sum[mode].reduce((a, x) => a + (what(x) ?? 0), 0), ratios = sum.off.map((x, i) => x.ms / sum.auto[i].ms);
  const rate = (mode) => (1000 * all(mode, (x) => x.n) / all(mode, (x) => x.ms)).toFixed(1);
  const experts = (mode) => Object.entries(sum[mode][0].experts ?? {}).filter(([, v]) => typeof v === 'number').map(([k]) => `${k} ${(all(mode, (x) => x.experts[k]) / all(mode, (x) => x.n)).toFixed(2)}`).join(', ');
  console.log(`${run}: ${rate('off')} -> ${rate('auto')} tok/s; ${ratios.length} turns: median ${middle(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}), all ${(all('off', (x) => x.ms) / all('auto', (x) => x.ms)).toFixed(2)}; `
    + `drafted ${all('auto', (x) => x.drafted)} in ${all('auto', (x) => x.steps)} steps, right ${all('auto', (x) => x.accepted)}\n  a token, plain: ${experts('off')}\n  a token, drafts: ${experts('auto')}`);
}
await s.stop();
rmSync(bin, { recursive: true });
