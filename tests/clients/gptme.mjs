// gptme over /v1/chat/completions, with the settings of docs/clients/gptme.md.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';

async function gptme(c, kind, prompts, { cwd = c.folder(), more = [], timeout } = {}) {
  const s = await c.server(kind), config = path.join(cwd, '.config/gptme');
  mkdirSync(config, { recursive: true });
  writeFileSync(path.join(config, 'config.toml'), c.settingsOf('gptme.md', 'toml', s));
  const r = await c.sh(c.venv('gptme'), ['--model', 'sluice/demo-model', '--tool-format', 'tool', '--non-interactive', '--tools', 'save,shell,complete', '--system', 'short', ...more, ...prompts],
    { cwd, timeout, env: { ...c.exportsOf('gptme.md', s), HOME: cwd, XDG_CONFIG_HOME: path.join(cwd, '.config'), XDG_DATA_HOME: path.join(cwd, '.data'), GPTME_NO_LOCAL_DISCOVERY: '1' } });
  return { ...r, cwd };
}

export default [{
  name: 'gptme', title: 'gptme', version: '0.35.1', pip: ['gptme==0.35.1'],
  tasks: {
    'a tool loop that writes a file (scripted)': async (c) => {
      const r = await gptme(c, 'scripted', [c.steps(c.call('save', { path: 'town.txt', content: 'Koeln\n' }), c.call('shell', { command: 'tr K C < town.txt > copy.txt' }), `The file is DONE-WRITTEN.\n${c.call('complete', {})}`)]);
      assert.equal(r.code, 0, r.text);
      assert.ok(existsSync(path.join(r.cwd, 'town.txt')), r.text);
      assert.equal(readFileSync(path.join(r.cwd, 'town.txt'), 'utf8'), 'Koeln\n');
      assert.equal(readFileSync(path.join(r.cwd, 'copy.txt'), 'utf8'), 'Coeln\n', r.text);
      assert.match(r.text, /DONE-WRITTEN/);
    },
    'an overflow is compacted, and it goes on (scripted)': async (c) => {
      const cwd = c.folder(), long = (i) => `${c.steps(`TURN-${i}\n${c.call('complete', {})}`)} ${'some words of a long question '.repeat(2600)}`;
      for (let i = 0; i < 4; i++) {
        const r = await gptme(c, 'limited', [long(i)], { cwd, more: ['--name', 'overflow', ...(i ? ['--resume'] : [])] });
        assert.match(r.text, new RegExp(`TURN-${i}`), `turn ${i}: ${r.text.slice(-3000)}`);
      }
      const events = readdirSync(path.join(cwd, '.data'), { recursive: true }).filter((f) => /compact/.test(f)).map((f) => readFileSync(path.join(cwd, '.data', f), 'utf8')).join('');
      assert.match(events, /"overflow"/, 'no prompt was too long');
    },
    'an answer of the real engine': async (c) => {
      const r = await gptme(c, 'real', [`${'The town lies by the sea, and people live there. '.repeat(400)} Say hello.`], { timeout: 500000 });
      assert.equal(r.code, 0, r.text.slice(-3000));
    },
  },
}];
