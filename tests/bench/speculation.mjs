// How much drafts gain: each question by turns with `speculate: off` and each drafter on one engine, decode time from
// the engine's own clock. Answers must be equal. No question is asked twice, and what is remembered of earlier answers is
// kept apart for each drafter (cache_salt). Run:
// node tests/bench/speculation.mjs [--rounds 5] [--streams 1,4,16] [--modes ngram,draft,mtp,auto] [--kinds code,prose]
// [--draft-model PATH] [--engine "--isa avx2"]
import path from 'node:path';
import { start, top } from '../api/harness.mjs';
import { code, random, repeated, source, story } from './questions.mjs';

const flag = (name, otherwise) => { const at = process.argv.indexOf(`--${name}`); return at < 0 ? otherwise : process.argv[at + 1]; };
const rounds = Number(flag('rounds', 5)), streams = flag('streams', '1').split(',').map(Number), tokens = Number(flag('tokens', 200));
const modes = flag('modes', 'ngram,draft,auto').split(',');
const engine = flag('engine', '').split(' ').filter(Boolean), kinds = flag('kinds', '').split(',').filter(Boolean);

const chat = (content, more) => ({ url: '/v1/chat/completions', body: { messages: [{ role: 'user', content }], ...more } });
const text = (prompt, more) => ({ url: '/v1/completions', body: { prompt, ...more } });
const whole = { ignore_eos: false }; // it ends where the model ends it: what would follow is no text that anybody asks for
const cases = {
  'code, asked for': (i) => chat(code(i), whole),
  'code, continued': (i) => text(source('engine/sched/fair_queue.c', 300 * i, 1500)),
  'code, rewritten (prediction)': (i) => chat(`Repeat this code:\n${source('engine/sched/fair_queue.c', 300 * i, 700)}`,
    { prediction: { type: 'content', content: source('engine/sched/fair_queue.c', 300 * i, 700) } }),
  'JSON by a schema': (i) => chat(`Name ${3 + i} people.`, { response_format: { type: 'json_schema', json_schema: { name: 'people', schema: {
    type: 'array', minItems: 8, items: { type: 'object', properties: { first_name: { type: 'string', maxLength: 12 }, family_name: { type: 'string', maxLength: 12 }, age: { type: 'integer', minimum: 1, maximum: 99 } },
      required: ['first_name', 'family_name', 'age'], additionalProperties: false } } } } }),
  'prose, story': (i) => chat(story(i), whole),
  'prose, continued': (i) => text(source('README.md', 400 * i, 1600)),
  'text that repeats': (i) => text(repeated(i)),
  'a sentence again and again, by a grammar': () => text('Once more:', { grammar: 'root ::= ("The cat sat on the mat and looked at the dog. " | "It rained. ")+' }), // for models that write no text of their own
  'random tokens': (i) => text(random(i + 1, 300), { logit_bias: {} }),
  'short answers': (i) => chat(`What is ${i} + ${i + 2}?`, { max_tokens: 12 }),
};

const drafter = flag('draft-model', modes.includes('draft') ? 'auto' : modes.includes('dflash') ? path.join(top, 'engine/demo-model/dflash') : 'off');
const s = await start({ args: [...engine, '--draft-model', drafter] });
const rows = [];
for (const n of streams) for (const temperature of [0, 0.8]) for (const [name, make] of Object.entries(cases)) {
  if (kinds.length && !kinds.some((k) => name.includes(k))) continue;
  const sum = Object.fromEntries(['off', ...modes].map((m) => [m, { ms: 0, tokens: 0, drafted: 0, accepted: 0, making: 0, ratios: [], at: [], right: [] }]));
  for (let round = 0; round <= rounds; round++) { // the first is not counted: it fills caches
    const once = {}, answers = {}, turn = ['off', ...modes];
    turn.unshift(...turn.splice(round % turn.length));
    for (const speculate of turn) {
      const bodies = await Promise.all(Array.from({ length: n }, async (_, k) => {
        const q = make(round * n + k);
        const { status, body } = await s.json('POST', q.url, { max_tokens: tokens, ignore_eos: !q.body.response_format && !q.body.max_tokens, temperature, seed: 7 + k, cache_salt: speculate, ...q.body, speculate });
        if (status !== 200) throw new Error(JSON.stringify(body));
        return body;
      }));
      answers[speculate] = JSON.stringify(bodies.map((b) => b.choices));
      once[speculate] = { ms: bodies.reduce((a, b) => a + b.timings.decode_ms, 0), tokens: bodies.reduce((a, b) => a + b.usage.completion_tokens - 1, 0) };
      if (round) for (const { timings: { speculation: x } } of bodies) { sum[speculate].drafted += x.drafted; sum[speculate].accepted += x.accepted; sum[speculate].making += x.draft_ms; x.drafted_at.forEach((k, i) => { sum[speculate].at[i] = (sum[speculate].at[i] ?? 0) + k; sum[speculate].right[i] = (sum[speculate].right[i] ?? 0) + x.accepted_at[i]; }); }
      if (answers[speculate] !== answers[turn[0]]) throw new Error(`${name}: the answers differ\n${answers[turn[0]]}\n${answers[speculate]}`);
    }
    if (!round) continue;
    for (const m of turn) {
      sum[m].ms += once[m].ms;
      sum[m].tokens += once[m].tokens;
      sum[m].ratios.push(once.off.ms / once[m].ms);
    }
  }
  const rate = (x) => (x.tokens / x.ms * 1000 * n).toFixed(0);
  for (const m of modes) {
    const x = sum[m], at = x.ratios.sort((a, b) => a - b);
    rows.push(`| ${name} | ${temperature} | ${n} | ${m} | ${rate(sum.off)} | ${rate(x)} | ${(sum.off.ms / x.ms).toFixed(2)} | ${at[at.length >> 1].toFixed(2)} (${at[0].toFixed(2)} to ${at.at(-1).toFixed(2)}) | ${x.drafted} | ${(100 * x.accepted / (x.drafted || 1)).toFixed(0)} % | ${x.at.slice(0, 4).filter(Boolean).map((k, i) => `${x.right[i]}/${k}`).join(' ')} | ${(100 * x.making / x.ms).toFixed(1)} % |`);
    console.error(rows.at(-1));
  }
}
console.log('| text | temperature | streams | drafts | plain tok/s | with drafts | ratio of all | of turns, median (range) | drafted | accepted | by place | share of time making them |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |');
console.log(rows.join('\n'));
await s.stop();
