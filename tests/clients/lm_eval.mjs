// lm-eval over /v1/completions and /v1/chat/completions, with the settings of docs/clients/lm-eval.md: multiple choice, perplexity and
// generate_until, on tasks of its own format with local data; its perplexity is that of `sluice perplexity`. Remote tokenization: it asks
// /tokenizer_info, /tokenize and /detokenize.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { demo, program } from '../api/harness.mjs';
import { exported } from './lib/settings.mjs';

const TEXT = Array.from({ length: 12 }, (_, i) => `The town number ${i} lies ${i * 7} miles from the sea, and ${i % 3 ? 'few' : 'many'} people live there.`).join(' ');
const rows = (list) => `${list.map((o) => JSON.stringify(o)).join('\n')}\n`;

/** The three kinds of tasks, each a YAML file beside its data. */
function writeTasks(dir) {
  const data = (name, list) => { writeFileSync(path.join(dir, `${name}.jsonl`), rows(list)); return `dataset_path: json\ndataset_kwargs:\n  data_files:\n    test: ${path.join(dir, `${name}.jsonl`)}\ntest_split: test\n`; };
  writeFileSync(path.join(dir, 'own_choice.yaml'), `task: own_choice\n${data('choice', [{ q: 'Two and two are', a: ['four', 'green', 'Tuesday'], n: 0 }, { q: 'The sun rises in the', a: ['kettle', 'east', 'seven'], n: 1 }])}output_type: multiple_choice
doc_to_text: "{{q}}"\ndoc_to_choice: "{{a}}"\ndoc_to_target: "{{n}}"\nmetric_list:\n  - metric: acc\n`);
  writeFileSync(path.join(dir, 'own_perplexity.yaml'), `task: own_perplexity\n${data('text', [{ text: TEXT }])}output_type: loglikelihood_rolling
doc_to_text: ""\ndoc_to_target: "{{text}}"\nmetric_list:\n  - metric: word_perplexity\n  - metric: byte_perplexity\n`);
  writeFileSync(path.join(dir, 'own_generation.yaml'), `task: own_generation\n${data('generation', [{ q: 'Say hello.', a: 'hello' }])}output_type: generate_until
doc_to_text: "{{q}}"\ndoc_to_target: "{{a}}"\ngeneration_kwargs:\n  until: ["\\n\\n"]\n  max_gen_toks: 20\nmetric_list:\n  - metric: exact_match\n`);
}

/** The page's command for completions or chat, with a task of ours in place of its tasks. */
async function run(c, task, endpoint) {
  const s = await c.server('real'), cwd = c.folder(), tasks = path.join(cwd, 'tasks'), out = path.join(cwd, 'out'), page = c.settingsOf('lm-eval.md', 'sh', s);
  mkdirSync(tasks);
  writeTasks(tasks);
  const [words] = page.replaceAll('\\\n', ' ').split('\n').map((l) => l.split(/\s+/)).filter(([name, , model]) => name === 'lm_eval' && model === endpoint);
  words[words.indexOf('--tasks') + 1] = task;
  const r = await c.sh(c.venv('lm_eval'), [...words.slice(1), '--include_path', tasks, '--output_path', out], { cwd, env: { ...exported(page), HF_DATASETS_OFFLINE: '0', HF_HUB_OFFLINE: '1', HF_HOME: path.join(cwd, 'hf') } });
  assert.equal(r.code, 0, r.text.slice(-3000));
  const found = readdirSync(out, { recursive: true }).find((f) => /results.*\.json$/.test(f));
  return JSON.parse(readFileSync(path.join(out, found), 'utf8')).results[task];
}

export default [{
  name: 'lm_eval', title: 'lm-eval', version: '0.4.13', pip: ['lm-eval[api]==0.4.13'],
  tasks: {
    'multiple choice': async (c) => {
      const result = await run(c, 'own_choice', 'local-completions');
      assert.ok(result['acc,none'] >= 0, JSON.stringify(result));
      return `works (acc ${result['acc,none']})`;
    },
    'perplexity, equal to sluice perplexity': async (c) => {
      const result = await run(c, 'own_perplexity', 'local-completions');
      const s = await c.server('real'), ids = (await s.json('POST', '/tokenize', { content: TEXT })).body.tokens, file = path.join(c.folder(), 'ids.json');
      const { eos_token: eos } = (await s.json('GET', '/tokenizer_info')).body; // lm-eval begins with this one
      const first = (await s.json('POST', '/tokenize', { content: eos, parse_special: true })).body.tokens;
      writeFileSync(file, JSON.stringify([...first, ...ids]));
      const own = JSON.parse(execFileSync(program('sluice'), ['perplexity', '--model', demo, '--ids-file', file, '--backend', 'cpu', '--json']));
      const bytes = Math.exp((own.mean_nll * own.tokens) / Buffer.byteLength(TEXT));
      assert.ok(Math.abs(result['byte_perplexity,none'] / bytes - 1) < 1e-4, `${result['byte_perplexity,none']} and ${bytes}`);
      return `works (byte perplexity ${result['byte_perplexity,none'].toFixed(6)}, sluice perplexity ${bytes.toFixed(6)})`;
    },
    'generate_until, completions': async (c) => { await run(c, 'own_generation', 'local-completions'); },
    'generate_until, chat': async (c) => { await run(c, 'own_generation', 'local-chat-completions'); },
  },
}];
