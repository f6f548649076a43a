// aiperf over chat, completions, responses and messages: what it counts is what was ordered and what the server counts.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { demo } from '../api/harness.mjs';
import { counters } from './lib/metrics.mjs';

async function run(c, kind, { prompt = 200, output = 20, count = 4, more = [] } = {}) {
  const s = await c.server('real'), cwd = c.folder(), names = ['sluice_prompt_tokens_total', 'sluice_generation_tokens_total'];
  const before = await counters(s, ...names);
  const r = await c.sh(c.venv('aiperf'), ['profile', '--model', 'demo-model', '--url', s.url, '--endpoint-type', kind, '--api-key', s.key, '--tokenizer', demo, '--synthetic-input-tokens-mean', String(prompt),
    '--output-tokens-mean', String(output), '--request-count', String(count), '--concurrency', String(Math.min(count, 2)), '--ui', 'none', '--no-gpu-telemetry', '--no-server-metrics', '--artifact-dir', path.join(cwd, 'out'), ...more],
  { cwd, timeout: 500000, env: { HF_HOME: path.join(cwd, 'hf'), HOME: cwd } });
  assert.equal(r.code, 0, r.text.slice(-3000));
  const file = readdirSync(path.join(cwd, 'out'), { recursive: true }).find((f) => /profile_export_aiperf\.json$/.test(f));
  const said = JSON.parse(readFileSync(path.join(cwd, 'out', file), 'utf8'));
  const [read, made] = (await counters(s, ...names)).map((n, i) => n - before[i]);
  assert.equal(said.request_count.avg, count, r.text.slice(-3000));
  return { said, read, made, text: `works (${count} requests: ${read} tokens read, ${made} made; output ${said.output_sequence_length?.avg} on average)` };
}

export default [{
  name: 'aiperf', title: 'aiperf', version: '0.13.0', pip: ['aiperf==0.13.0'],
  tasks: {
    'chat, streamed': async (c) => (await run(c, 'chat', { more: ['--streaming'] })).text,
    'chat, whole': async (c) => (await run(c, 'chat')).text,
    'chat, streamed, of a fixed length (min_tokens, ignore_eos)': async (c) => {
      const r = await run(c, 'chat', { more: ['--streaming', '--use-server-token-count', '--extra-inputs', 'min_tokens:20', '--extra-inputs', 'ignore_eos:true'] });
      assert.deepEqual([r.made, r.said.output_sequence_length.min, r.said.output_sequence_length.max], [4 * 20, 20, 20], r.text);
      return r.text;
    },
    'completions, streamed': async (c) => (await run(c, 'completions', { more: ['--streaming'] })).text,
    'responses, streamed': async (c) => (await run(c, 'responses', { more: ['--streaming'] })).text,
    'messages, streamed': async (c) => (await run(c, 'messages', { more: ['--streaming'] })).text,
    'a long prompt': async (c) => (await run(c, 'chat', { prompt: 6000, count: 1, more: ['--streaming'] })).text,
  },
}];
