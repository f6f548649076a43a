// Vercel's AI SDK, unmodified, with its providers for each form of the API, against the scripted engine.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { pdf } from './files.mjs';
import { eventually, load, start } from './harness.mjs';

const wanted = 20; // its package says 22; 20 runs all that is here
const skip = Number(process.versions.node.split('.')[0]) >= wanted ? false : `needs Node.js ${wanted}`;
globalThis.AI_SDK_LOG_WARNINGS = false;

let s, ai, z;
const models = {};
before(async () => {
  if (skip) return;
  const names = ['ai', 'zod', '@ai-sdk/openai', '@ai-sdk/openai-compatible', '@ai-sdk/anthropic'];
  const [sdk, zod, openai, compatible, anthropic] = await Promise.all(names.map(load));
  [ai, { z }] = [sdk, zod];
  s = await start({ fake: true });
  const at = { baseURL: `${s.url}/v1`, apiKey: s.key };
  models.compatible = compatible.createOpenAICompatible({ ...at, name: 'sluice', includeUsage: true, supportsStructuredOutputs: true })('demo-model');
  models.chat = openai.createOpenAI(at).chat('demo-model');
  models.responses = openai.createOpenAI(at).responses('demo-model');
  models.anthropic = anthropic.createAnthropic(at)('demo-model');
});
after(() => s?.stop());

const order = (o) => `fake:${JSON.stringify(o)}`;
const call = (name, args) => `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;
const weather = () => ai.tool({ description: 'Weather of a town', inputSchema: z.object({ town: z.string() }),
  execute: async ({ town }) => order({ text: `It rains in ${town}.` }) });

/** One test for each provider. */
function each(name, check) {
  for (const form of ['compatible', 'chat', 'responses', 'anthropic'])
    test(`${form}: ${name}`, { skip }, () => check(models[form], form));
}

each('a text, with its usage', async (model) => {
  const r = await ai.generateText({ model, instructions: 'Be brief.', prompt: order({ text: 'An answer.' }), maxRetries: 0 });
  assert.deepEqual([r.text, r.finishReason], ['An answer.', 'stop']);
  assert.ok(r.usage.inputTokens > 3 && r.usage.outputTokens > 1);
});

each('a stream, with its usage and the thinking before it', async (model, form) => {
  const r = ai.streamText({ model, prompt: order({ text: '<think>\nHm.\n</think>\n\none two three' }), maxRetries: 0,
    providerOptions: { anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } }, openai: { reasoningSummary: 'auto', forceReasoning: true } } });
  let text = '';
  for await (const part of r.textStream) text += part;
  assert.equal(text, 'one two three');
  assert.ok((await r.usage).outputTokens > 2);
  if (form !== 'chat') assert.match(await r.reasoningText, /^Hm\./); // OpenAI's own chats show none, so its provider reads none
});

each('a tool\'s loop, whole and streamed', async (model) => {
  const ask = { model, tools: { get_weather: weather() }, stopWhen: ai.isStepCount(3), prompt: order({ text: call('get_weather', { town: 'Köln' }) }), maxRetries: 0 };
  const whole = await ai.generateText(ask);
  assert.deepEqual([whole.text, whole.steps.length], ['It rains in Köln.', 2]);
  assert.deepEqual(whole.steps[0].toolCalls[0].input, { town: 'Köln' });
  const streamed = ai.streamText(ask);
  assert.equal(await streamed.text, 'It rains in Köln.');
  assert.equal((await streamed.steps).length, 2);
});

each('a tool that must be called, and strictly', async (model) => {
  const tools = { get_weather: { ...weather(), strict: true, execute: undefined } };
  const r = await ai.generateText({ model, tools, toolChoice: 'required', prompt: order({ text: call('get_weather', { town: 'Bonn' }) }), maxRetries: 0 });
  assert.deepEqual([r.finishReason, r.toolCalls[0].input], ['tool-calls', { town: 'Bonn' }]);
});

each('an object of a schema, a choice, an object in pieces', async (model, form) => {
  const schema = z.object({ town: z.string(), rain: z.boolean() }), want = { town: 'Köln', rain: true };
  const prompt = order({ text: JSON.stringify(want) });
  assert.deepEqual((await ai.generateText({ model, output: ai.Output.object({ schema }), prompt, maxRetries: 0 })).output, want);
  assert.deepEqual((await ai.generateObject({ model, schema, prompt, maxRetries: 0 })).object, want);
  const choice = ai.Output.choice({ options: ['rain', 'sun'] });
  assert.equal((await ai.generateText({ model, output: choice, prompt: order({ text: '{"result":"sun"}' }), maxRetries: 0 })).output, 'sun');
  const parts = [];
  for await (const part of ai.streamText({ model, output: ai.Output.object({ schema }), prompt, maxRetries: 0 }).partialOutputStream) parts.push(part);
  assert.deepEqual(parts.at(-1), want);
  assert.ok(parts.length >= (form === 'anthropic' ? 1 : 2)); // there it is a tool's input, which comes when the call is complete
});

each('efforts, verbosity and sampling', async (model) => {
  const r = await ai.generateText({ model, prompt: order({ text: 'one two three four five' }), reasoning: 'low', maxOutputTokens: 2000, temperature: 0.5, topP: 0.9,
    seed: 7, stopSequences: [' four'], maxRetries: 0,
    providerOptions: { sluice: { textVerbosity: 'low', user: 'u' }, openai: { textVerbosity: 'low', user: 'u', store: false }, anthropic: { effort: 'low' } } });
  assert.match(r.text, /^one two three( four five)?$/); // OpenAI's responses have no stop sequences
  const cut = await ai.generateText({ model, prompt: order({ text: 'one two three four five' }), maxOutputTokens: 2, maxRetries: 0 });
  assert.equal(cut.finishReason, 'length');
});

each('a PDF is read', async (model) => {
  const file = { type: 'file', mediaType: 'application/pdf', filename: 'river.pdf', data: pdf(['The river is called Sluice.']) };
  const content = [file, { type: 'text', text: order({ say_prompt: true }) }];
  const r = await ai.generateText({ model, messages: [{ role: 'user', content }], maxOutputTokens: 4000, maxRetries: 0 });
  assert.match(r.text, /The river is called Sluice\./);
});

each('an abort frees the slot at once', async (model) => {
  const abort = new AbortController();
  const r = ai.streamText({ model, prompt: order({ text: 'word '.repeat(500), token_ms: 500 }), abortSignal: abort.signal, maxRetries: 0, onError() {} });
  for await (const part of r.stream) if (part.type === 'text-delta') abort.abort();
  await eventually(async () => assert.equal(await s.metric('num_requests_running'), 0));
});

each('errors carry the status and the words', async (model) => {
  const fails = (ask, status, words) => assert.rejects(ai.generateText({ model, prompt: 'x', maxRetries: 0, ...ask }),
    (e) => ai.APICallError.isInstance(e) && e.statusCode === status && words.test(e.message));
  await fails({ topP: 9 }, 400, /top_p/);
  await fails({ prompt: order({ refuse: 'busy' }) }, 503, /./);
});
