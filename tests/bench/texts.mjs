// Texts for tests/bench/drafts, as JSON on standard output: what the demo model answers to the questions of speculation.mjs at temperature 0
// (sets code-a, code-b, story-a, story-b) and 0.8 (the same with -8), and text of which nothing was there before or nearly all.
// Run: node tests/bench/texts.mjs > FILE
import { code, codes, random, repeated, source, stories, story } from './questions.mjs';
import { start } from '../api/harness.mjs';

const s = await start({ args: ['--draft-model', 'off'] });
const out = [];
async function answer(set, content, temperature, seed) { // a prompt tells its tape, so none is that of two
  const { status, body } = await s.json('POST', '/v1/chat/completions', { messages: [{ role: 'user', content }], max_tokens: 300, temperature, seed });
  if (status !== 200) throw new Error(JSON.stringify(body));
  out.push({ set, prompt: `${temperature ? 'Freely: ' : ''}${content}\n`, answer: body.choices[0].message.content });
}
for (const [temperature, mark] of [[0, ''], [0.8, '-8']]) {
  for (let i = 0; i < codes; i++) await answer(`code-${i < 0.6 * codes ? 'a' : 'b'}${mark}`, code(i), temperature, i);
  for (let i = 0; i < stories; i++) await answer(`story-${i < 0.6 * stories ? 'a' : 'b'}${mark}`, story(i), temperature, i);
}
for (let i = 0; i < 16; i++) {
  for (const name of ['engine/sched/fair_queue.c', 'README.md']) out.push({ set: 'continued', prompt: source(name, 1200 * i, 300), answer: source(name, 1200 * i + 300, 900) });
  const lines = repeated(i).split('\n');
  out.push({ set: 'repeats', prompt: `${i}: ${lines.slice(0, 3).join('\n')}\n`, answer: lines.slice(3).join('\n') });
  const { body } = await s.json('POST', '/detokenize', { tokens: random(i + 1, 300) }), words = body.content.replaceAll('\0', ' ');
  out.push({ set: 'random', prompt: words.slice(0, 150), answer: words.slice(150) });
}
process.stdout.write(JSON.stringify(out));
await s.stop();
