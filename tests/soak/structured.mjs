#!/usr/bin/env node
// By hand: answers of the demo model held to random schemas, hot sampling, against an independent validator.
//   node tests/soak/structured.mjs [--answers 10000] [--per-schema 20] [--jobs 32] [--tokens 300] [--temperature 1.5]
// Starts its own server (SLUICE_PREFIX as for the tests). Status 1 when one finished answer is invalid.
import { load, start } from '../api/harness.mjs';
import { make, rng } from '../api/random_schema.mjs';

const arg = (name, fallback) => {
  const i = process.argv.indexOf(`--${name}`);
  return i < 0 ? fallback : Number(process.argv[i + 1]);
};
const answers = arg('answers', 10000), per = arg('per-schema', 20), tokens = arg('tokens', 300), temperature = arg('temperature', 1.5);
const Ajv = (await load('ajv/dist/2020.js')).default.default;
const addFormats = (await load('ajv-formats')).default;
const s = await start({ args: ['--slots', '32', '--max-queue', '1000', '--log-level', 'warn'] });

const r = rng(arg('seed', 1)), count = { stop: 0, length: 0, invalid: 0, refused: 0, failed: 0, tokens: 0 };
let schema, check, left = 0, n = 0;
function next() { // the schema of the next answer
  if (!left--) {
    const inner = make(r, 2)[0], ajv = new Ajv({ strict: false, allErrors: true, validateFormats: true });
    (addFormats.default ?? addFormats)(ajv);
    schema = { type: 'object', properties: { value: inner }, required: ['value'], additionalProperties: false };
    check = ajv.compile(schema);
    left = per - 1;
  }
  return [schema, check];
}

async function job() {
  while (n < answers) {
    const [wanted, valid] = next(), seed = n++;
    const { status, body, text } = await s.chat({ messages: [{ role: 'user', content: 'Give me a value.' }], max_tokens: tokens, temperature, seed,
      response_format: { type: 'json_schema', json_schema: { name: 'x', schema: wanted, strict: false } } });
    if (status !== 200) {
      count[status === 400 ? 'refused' : 'failed']++;
      if (status !== 400) console.log(text);
      continue;
    }
    const [choice] = body.choices;
    count.tokens += body.usage.completion_tokens;
    count[choice.finish_reason]++;
    if (choice.finish_reason !== 'stop') continue;
    let ok = false;
    try { ok = valid(JSON.parse(choice.message.content)); } catch { /* no JSON */ }
    if (!ok) {
      count.invalid++;
      console.log(JSON.stringify(wanted), choice.message.content);
    }
  }
}
const began = Date.now();
const watch = setInterval(() => console.log(n, JSON.stringify(count)), 60000);
await Promise.all(Array.from({ length: arg('jobs', 32) }, job));
clearInterval(watch);
const seconds = (Date.now() - began) / 1000;
console.log(`${count.stop} finished, ${count.invalid} invalid, ${count.length} cut at ${tokens} tokens, ${count.refused} schemas' answers refused, ` +
  `${count.failed} failed; ${count.tokens} tokens in ${seconds.toFixed(0)} s`);
await s.stop();
process.exit(count.invalid || count.failed || !count.stop ? 1 : 0);
