// Cline's command line over /v1/chat/completions, with the settings of docs/clients/cline.md.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** How Cline begins the request for a summary. */
const SUMMARIZE = 'Summarize the provided coding session';

async function cline(c, kind, prompt, { cwd = c.folder(), timeout, context } = {}) {
  const s = await c.server(kind), env = { HOME: cwd, CLINE_NO_AUTO_UPDATE: '1', CLINE_SESSION_BACKEND_MODE: 'local' }; // no daemon stays
  const auth = c.settingsOf('cline.md', 'sh', s).split('\n')[0].split(' ').slice(1);
  const set = await c.sh(c.bin('cline'), auth, { cwd, env });
  assert.equal(set.code, 0, set.text);
  const file = path.join(cwd, '.cline/data/settings/providers.json'), providers = JSON.parse(readFileSync(file, 'utf8'));
  Object.assign(providers.providers['openai-compatible'].settings, JSON.parse(`{ ${c.settingsOf('cline.md', 'json', s)} }`), context ? { contextWindow: context } : {});
  writeFileSync(file, JSON.stringify(providers));
  const r = await c.sh(c.bin('cline'), ['--json', '--thinking', 'high', prompt], { cwd, env, timeout });
  return { ...r, cwd };
}

/** Cline resumes a session in its terminal interface only: the overflow comes within one task. context: as Cline is told it. */
async function overflow(c, context) {
  const cwd = c.folder(), s = await c.server('limited'), refused = () => s.metric('http_requests_total', 'status="400"'), before = await refused();
  const steps = Array.from({ length: 12 }, (_, i) => {
    const file = path.join(cwd, `${i}.txt`);
    writeFileSync(file, 'some words of a long file\n'.repeat(900));
    return c.call('read_files', { files: [{ path: file }] });
  });
  const order = c.hidden({ steps: [...steps, 'NEVER-COMPACTED'], when: { [SUMMARIZE]: `The summary: ${c.hidden({ text: 'GOES-ON' })}` } });
  const r = await cline(c, 'limited', `${order} Read the files.`, { cwd, context });
  assert.match(r.text, /GOES-ON/);
  return `works (requests refused with 400: ${(await refused()) - before})`;
}

export default [{
  name: 'cline', title: 'Cline', version: '3.0.65', npm: ['cline@3.0.65'],
  tasks: {
    'a tool loop that edits a file, thinking high (scripted)': async (c) => {
      const cwd = c.folder(), file = path.join(cwd, 'town.txt');
      writeFileSync(file, 'town = Koeln\n');
      const r = await cline(c, 'scripted', c.steps(c.call('read_files', { files: [{ path: file }] }),
        `<think>\nI CHANGE the town.\n</think>\n\n${c.call('editor', { path: file, old_text: 'Koeln', new_text: 'Kiel' })}`, 'EDIT-DONE'), { cwd });
      assert.equal(r.code, 0, r.text);
      assert.equal(readFileSync(file, 'utf8'), 'town = Kiel\n', r.text);
      assert.match(r.text, /EDIT-DONE/);
    },
    'an image is read, and the session goes on (scripted)': async (c) => {
      const cwd = c.folder(), file = path.join(cwd, 'dot.png');
      writeFileSync(file, c.PNG);
      const r = await cline(c, 'scripted', c.steps(c.call('read_files', { files: [{ path: file }] }), c.call('run_commands', { commands: ['echo seen > seen.txt'] }), 'IMAGE-DONE'), { cwd });
      assert.equal(r.code, 0, r.text);
      assert.equal(readFileSync(path.join(cwd, 'seen.txt'), 'utf8'), 'seen\n', r.text);
      assert.match(r.text, /IMAGE-DONE/);
    },
    'an overflow within a task is compacted, and it goes on (scripted)': (c) => overflow(c),
    'compacts before the window is full, and goes on (scripted)': (c) => overflow(c, 40000),
    'an answer of the real engine, thinking high': async (c) => {
      const before = await c.generated('real'), r = await cline(c, 'real', 'Say hello.', { timeout: 500000 });
      assert.equal(r.code, 0, r.text);
      assert.ok((await c.generated('real')) > before, r.text);
    },
  },
}];
