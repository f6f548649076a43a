// OpenAI's Codex CLI over /v1/responses, with the settings of docs/clients/codex.md.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

async function codex(c, kind, prompt, more = []) {
  const s = await c.server(kind), cwd = c.folder(), home = path.join(cwd, '.codex');
  mkdirSync(home);
  writeFileSync(path.join(home, 'config.toml'), c.settingsOf('codex.md', 'toml', s));
  const ended = await c.sh(c.bin('codex'), ['exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', ...more, prompt],
    { cwd, env: { CODEX_HOME: home, SLUICE_API_KEY: s.key } });
  return { ...ended, cwd };
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
    'an answer of the real engine': async (c) => {
      const r = await codex(c, 'real', 'Say hello.');
      assert.equal(r.code, 0, r.text);
    },
  },
}];
