// guidellm over chat, completions and responses: what it counts is what was ordered and what the server counts.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { demo } from '../api/harness.mjs';
import { counters } from './lib/metrics.mjs';

const lib = path.join(path.dirname(fileURLToPath(import.meta.url)), 'lib'); // its torch.py

async function run(c, where, { prompt = 200, output = 20, count = 4, profile = 'kind=concurrent,streams=2' } = {}) {
  const s = await c.server('real'), cwd = c.folder(), out = path.join(cwd, 'out.json'), names = ['sluice_prompt_tokens_total', 'sluice_generation_tokens_total'];
  const before = await counters(s, ...names);
  const r = await c.sh(c.venv('guidellm'), ['run', '--backend', `kind=openai_http,target=${s.url},model=demo-model,api_key=${s.key},request_format=${where}`, '--tokenizer', `kind=huggingface_auto,model=${demo}`,
    '--data', `kind=synthetic_text,prompt_tokens=${prompt},output_tokens=${output}`, '--profile', profile, '--constraint', `kind=max_requests,count=${count}`, '--output', `kind=json,path=${out}`, '--disable-progress'],
  { cwd, timeout: 500000, env: { PYTHONPATH: lib, HF_HUB_OFFLINE: '1', USE_TORCH: '0', HF_HOME: path.join(cwd, 'hf') } });
  assert.equal(r.code, 0, r.text.slice(-3000));
  const { metrics } = JSON.parse(readFileSync(out, 'utf8')).benchmarks[0], totals = metrics.request_totals;
  assert.deepEqual([totals.successful, totals.errored, totals.incomplete], [count, 0, 0], JSON.stringify(totals));
  const [read, made] = (await counters(s, ...names)).map((n, i) => n - before[i]);
  const [input, written] = ['prompt_token_count', 'output_token_count'].map((name) => metrics[name].successful);
  assert.deepEqual([written.min, written.max], [output, output], JSON.stringify(written));
  assert.deepEqual([input.total_sum, written.total_sum], [read, made], 'its figures and /metrics');
  return `works (${count} requests: ${read} tokens read, ${made} made, as in /metrics)`;
}

export default [{
  name: 'guidellm', title: 'guidellm (torch stood in for)', version: '0.8.1', pip: ['--no-deps', '-r', path.join(lib, 'guidellm.txt')],
  tasks: {
    'chat, streamed': (c) => run(c, '/v1/chat/completions'),
    'completions, streamed': (c) => run(c, '/v1/completions'),
    'responses, streamed': (c) => run(c, '/v1/responses'),
    'a long prompt': (c) => run(c, '/v1/chat/completions', { prompt: 6000, count: 1, profile: 'kind=synchronous' }),
  },
}];
