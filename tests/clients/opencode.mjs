// opencode over each of the three APIs, with the settings of docs/clients/opencode.md.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** The page's block of settings beside the first one. */
const FORMS = { responses: 1, messages: 2 };

async function opencode(c, kind, prompt, { form = 'chat', cwd = c.folder(), more = [], timeout } = {}) {
  const s = await c.server(kind), home = path.join(cwd, '.config/opencode');
  mkdirSync(home, { recursive: true });
  writeFileSync(path.join(home, 'opencode.json'), c.settingsOf('opencode.md', 'json', s));
  if (FORMS[form]) writeFileSync(path.join(cwd, 'opencode.json'), c.settingsOf('opencode.md', 'json', s, FORMS[form]));
  const env = { ...c.exportsOf('opencode.md', s), HOME: cwd, XDG_CONFIG_HOME: path.join(cwd, '.config'), XDG_DATA_HOME: path.join(cwd, '.share'), XDG_STATE_HOME: path.join(cwd, '.state'),
    XDG_CACHE_HOME: path.join(cwd, '.cache'), OPENCODE_DISABLE_MODELS_FETCH: '1', OPENCODE_DISABLE_AUTOUPDATE: '1', OPENCODE_DISABLE_LSP_DOWNLOAD: '1' };
  const binary = path.join(c.installed, 'node_modules/opencode-linux-x64/bin/opencode');
  const r = await c.sh(binary, ['run', '--auto', '--thinking', ...more], { cwd, env, input: prompt, timeout });
  return { ...r, cwd };
}

const loop = (form) => async (c) => {
  const cwd = c.folder(), file = path.join(cwd, 'town.txt');
  writeFileSync(file, 'town = Koeln\n');
  const r = await opencode(c, 'scripted', c.steps(c.call('read', { filePath: file }),
    `<think>\nI CHANGE the town.\n</think>\n\n${c.call('edit', { filePath: file, oldString: 'Koeln', newString: 'Kiel' })}`, 'EDIT-DONE'), { form, cwd });
  assert.equal(r.code, 0, r.text);
  assert.equal(readFileSync(file, 'utf8'), 'town = Kiel\n', r.text);
  assert.match(r.text, /EDIT-DONE/);
  assert.match(r.text, /I CHANGE the town/, `no reasoning: ${r.text}`);
};

export default [{
  name: 'opencode', title: 'opencode', version: '1.18.33', npm: ['opencode-ai@1.18.33'],
  tasks: {
    'a tool loop that edits a file, reasoning shown (scripted, chat)': loop('chat'),
    'a tool loop that edits a file, reasoning shown (scripted, responses)': loop('responses'),
    'a tool loop that edits a file, reasoning shown (scripted, messages)': loop('messages'),
    'an image is read, and the session goes on (scripted)': async (c) => {
      const cwd = c.folder(), file = path.join(cwd, 'dot.png');
      writeFileSync(file, c.PNG);
      const r = await opencode(c, 'scripted', c.steps(c.call('read', { filePath: file }), c.call('bash', { command: 'echo seen > seen.txt', description: 'x' }), 'IMAGE-DONE'), { cwd });
      assert.equal(r.code, 0, r.text);
      assert.equal(readFileSync(path.join(cwd, 'seen.txt'), 'utf8'), 'seen\n', r.text);
      assert.match(r.text, /IMAGE-DONE/);
      const more = await opencode(c, 'scripted', c.steps('STILL-HERE'), { cwd, more: ['--continue'] });
      assert.match(more.text, /STILL-HERE/);
    },
    'an overflow is compacted, and it goes on (scripted)': async (c) => {
      const cwd = c.folder();
      return c.untilCompacted(await c.server('limited'), 'context summarization agent', async (prompt, turn) => (await opencode(c, 'limited', prompt, { cwd, more: turn ? ['--continue'] : [] })).text);
    },
    'an answer of the real engine': async (c) => {
      const before = await c.generated('real'), r = await opencode(c, 'real', 'Say hello.', { timeout: 500000 });
      assert.equal(r.code, 0, r.text);
      assert.ok((await c.generated('real')) > before, r.text);
    },
  },
}];
