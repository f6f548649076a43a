// Anthropic's Claude Code over /v1/messages, with the settings of docs/clients/claude-code.md.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

function environment(c, s, cwd) {
  return { ...c.exportsOf('claude-code.md', s), CLAUDE_CONFIG_DIR: path.join(cwd, '.claude'), IS_SANDBOX: '1', DISABLE_AUTOUPDATER: '1', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    CLAUDE_CODE_MAX_OUTPUT_TOKENS: '2000' };
}

async function claude(c, kind, prompt, { cwd = c.folder(), more = [], timeout } = {}) {
  const s = await c.server(kind);
  const binary = path.join(c.installed, 'node_modules/@anthropic-ai/claude-code-linux-x64/claude');
  const r = await c.sh(binary, ['-p', '--dangerously-skip-permissions', '--output-format', 'json', ...more], { cwd, env: environment(c, s, cwd), input: prompt, timeout });
  let said = {};
  try { said = JSON.parse(r.text.split('\n').find((l) => l.startsWith('{'))); } catch { /* the text says what happened */ }
  return { ...r, cwd, said };
}

export default [{
  name: 'claude', title: 'Claude Code', versions: ['2.1.197', '2.1.330'],
  of: (v) => ({ npm: [`@anthropic-ai/claude-code@${v}`] }),
  tasks: {
    'a tool loop that edits a file (scripted)': async (c) => {
      const cwd = c.folder(), file = path.join(cwd, 'town.txt');
      writeFileSync(file, 'town = Koeln\n');
      const r = await claude(c, 'scripted', c.steps(c.call('Read', { file_path: file }),
        c.call('Edit', { file_path: file, old_string: 'Koeln', new_string: 'Kiel' }), 'EDIT-DONE'), { cwd });
      assert.equal(r.code, 0, r.text);
      assert.equal(readFileSync(file, 'utf8'), 'town = Kiel\n', r.text);
      assert.match(r.said.result, /EDIT-DONE/, r.text);
    },
    'thinking, then two calls at once (scripted)': async (c) => {
      const r = await claude(c, 'scripted', c.steps(`<think>\nI look twice.\n</think>\n\n${c.call('Bash', { command: 'echo one > a.txt', description: 'a' })}\n${c.call('Bash', { command: 'echo two > b.txt', description: 'b' })}`, 'BOTH-DONE'));
      assert.equal(r.code, 0, r.text);
      assert.equal(readFileSync(path.join(r.cwd, 'a.txt'), 'utf8') + readFileSync(path.join(r.cwd, 'b.txt'), 'utf8'), 'one\ntwo\n');
      assert.match(r.said.result, /BOTH-DONE/, r.text);
    },
    'an image is read, and the session goes on (scripted)': async (c) => {
      const cwd = c.folder(), file = path.join(cwd, 'dot.png');
      writeFileSync(file, c.PNG);
      const r = await claude(c, 'scripted', c.steps(c.call('Read', { file_path: file }), c.call('Bash', { command: 'echo seen > seen.txt', description: 'x' }), 'IMAGE-DONE'), { cwd });
      assert.equal(r.code, 0, r.text);
      assert.equal(readFileSync(path.join(cwd, 'seen.txt'), 'utf8'), 'seen\n', r.text);
      assert.match(r.said.result, /IMAGE-DONE/, r.text);
      const more = await claude(c, 'scripted', c.steps('STILL-HERE'), { cwd, more: ['--continue'] });
      assert.match(more.said.result, /STILL-HERE/, more.text);
    },
    'an overflow is compacted, and it goes on (scripted)': async (c) => {
      const cwd = c.folder();
      return c.untilCompacted(await c.server('limited'), 'create a detailed summary', async (prompt, turn) => {
        const r = await claude(c, 'limited', prompt, { cwd, more: turn ? ['--continue'] : [] });
        return r.said.result ?? r.text;
      });
    },
    'an answer of the real engine': async (c) => {
      const r = await claude(c, 'real', 'Say hello.', { more: ['--max-turns', '1'], timeout: 500000 });
      assert.ok(r.said.usage?.output_tokens > 0, r.text);
    },
  },
}];
