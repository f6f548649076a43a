// OpenAI's Codex CLI over /v1/responses, with the settings of docs/clients/codex.md.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** context: what Codex is told that the model holds. */
async function codex(c, kind, prompt, { cwd = c.folder(), resume = false, more = [], context = 65536, timeout } = {}) {
  const s = await c.server(kind), home = path.join(cwd, '.codex');
  mkdirSync(home, { recursive: true });
  writeFileSync(path.join(home, 'config.toml'), c.settingsOf('codex.md', 'toml', s).replace('65536', context));
  const ended = await c.sh(c.bin('codex'), ['exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', ...(resume ? ['resume', '--last'] : []), ...more, '-'],
    { cwd, env: { CODEX_HOME: home, ...c.exportsOf('codex.md', s) }, input: prompt, timeout });
  return { ...ended, cwd };
}

/** A picture is read, something is done after it, and the session goes on. */
async function seen(c, first, more) {
  const cwd = c.folder(), file = path.join(cwd, 'dot.png');
  writeFileSync(file, c.PNG);
  const r = await codex(c, 'scripted', c.steps(...first(file), c.call('exec_command', { cmd: 'echo seen > seen.txt' }), 'IMAGE-DONE'), { cwd, more: more(file) });
  assert.equal(r.code, 0, r.text);
  assert.ok(existsSync(path.join(cwd, 'seen.txt')), r.text);
  assert.match(r.text, /IMAGE-DONE/);
  const then = await codex(c, 'scripted', c.steps('STILL-HERE'), { cwd, resume: true });
  assert.match(then.text, /STILL-HERE/);
}

export default [{
  name: 'codex', title: 'Codex CLI', versions: ['0.169.0'], of: (v) => ({ npm: [`@openai/codex@${v}`] }),
  tasks: {
    'a tool loop that writes a file (scripted)': async (c) => {
      const r = await codex(c, 'scripted', c.steps(c.call('exec_command', { cmd: 'printf Koeln > town.txt && cat town.txt' }), 'The file is DONE-WRITTEN.'));
      assert.equal(r.code, 0, r.text);
      assert.ok(existsSync(path.join(r.cwd, 'town.txt')), r.text);
      assert.equal(readFileSync(path.join(r.cwd, 'town.txt'), 'utf8'), 'Koeln');
      assert.ok(r.text.includes('DONE-WRITTEN'), r.text);
    },
    'an image is attached, and the session goes on (scripted)': (c) => seen(c, () => [], (file) => ['-i', file]),
    'an image is read by a tool, and the session goes on (scripted)': (c) => seen(c, (file) => [c.call('view_image', { path: file })], () => []),
    'compacts before the window is full, and goes on (scripted)': async (c) => {
      const cwd = c.folder();
      return c.untilCompacted(await c.server('limited'), 'CONTEXT CHECKPOINT COMPACTION', async (prompt, turn) => (await codex(c, 'limited', prompt, { cwd, context: 40000, resume: turn > 0 })).text, { turns: 20, phrases: 300 });
    },
    'a refused prompt, the window set too large (scripted)': async (c) => {
      const cwd = c.folder(), text = await c.untilRefused(async (prompt, turn) => (await codex(c, 'limited', prompt, { cwd, resume: turn > 0 })).text);
      const said = /Codex ran out of room in the model's context window/.exec(text)?.[0];
      assert.ok(said, text.slice(-1500));
      return `ends the turn with "${said} ..."; it does not compact`;
    },
    'an answer of the real engine': async (c) => {
      const before = await c.generated('real'), r = await codex(c, 'real', 'Say hello.', { timeout: 500000 });
      assert.equal(r.code, 0, r.text);
      assert.ok((await c.generated('real')) > before, r.text);
    },
  },
}];
