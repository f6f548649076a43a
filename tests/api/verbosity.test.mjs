// verbosity reaches a template that knows it, from every form; a model that does not is not told, and the answer says so.
import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { order, start, top } from './harness.mjs';

let s, plain, folder;
before(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'sluice-verbosity-'));
  const model = path.join(folder, 'wordy'), template = path.join(model, 'chat_template.jinja');
  cpSync(path.join(top, 'engine/demo-model'), model, { recursive: true });
  writeFileSync(template, `{% if verbosity is defined %}Verbosity: {{ verbosity }}\n{% endif %}${readFileSync(template, 'utf8')}`);
  s = await start({ fake: true, model });
  plain = await start({ fake: true });
});
after(async () => {
  await s?.stop();
  await plain?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const forms = (verbosity) => [
  ['/v1/chat/completions', { messages: order({ say_prompt: true }), verbosity, max_tokens: 200 }, (b) => b.choices[0].message.content],
  ['/v1/responses', { input: order({ say_prompt: true }), text: { verbosity }, max_output_tokens: 200 }, (b) => b.output.at(-1).content[0].text],
];

test('a template that knows verbosity is told', async () => {
  for (const verbosity of ['low', 'medium', 'high']) {
    for (const [where, body, text] of forms(verbosity)) {
      const r = await s.json('POST', where, body);
      assert.equal(r.status, 200, r.text);
      assert.equal(r.headers.get('x-sluice-ignored'), null);
      assert.match(text(r.body), new RegExp(`^Verbosity: ${verbosity}\\n`));
    }
  }
});

test('another names it as ignored; medium is what it does anyway', async () => {
  for (const [verbosity, field] of [['low', true], ['medium', false], ['high', true]]) {
    for (const [where, body] of forms(verbosity)) {
      const r = await plain.json('POST', where, body), name = body.text ? 'text.verbosity' : 'verbosity';
      assert.equal(r.headers.get('x-sluice-ignored'), field ? name : null, r.text);
    }
  }
  for (const [where, body] of forms('loud')) {
    const r = await plain.json('POST', where, body);
    assert.deepEqual([r.status, r.body.error.param], [400, body.text ? 'text.verbosity' : 'verbosity']);
  }
});
