// Qwen Code over /v1/chat/completions, with the settings of docs/clients/qwen-code.md.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** context: what Qwen Code is told that the model holds. */
async function qwen(c, kind, prompt, { cwd = c.folder(), more = [], timeout, context = 65536 } = {}) {
  const s = await c.server(kind), settings = path.join(cwd, '.qwen');
  mkdirSync(settings, { recursive: true });
  writeFileSync(path.join(settings, 'settings.json'), c.settingsOf('qwen-code.md', 'json', s).replace('65536', context));
  const r = await c.sh(c.bin('qwen'), ['--yolo', '-o', 'json', ...more], { cwd, env: { ...c.exportsOf('qwen-code.md', s), HOME: cwd, QWEN_CODE_MAX_OUTPUT_TOKENS: '200' }, input: prompt, timeout });
  return { ...r, cwd };
}

async function compacted(c, context) {
  const cwd = c.folder();
  return c.untilCompacted(await c.server('limited'), 'generate the <state_snapshot>', async (prompt, turn) => (await qwen(c, 'limited', prompt, { cwd, context, more: turn ? ['--continue'] : [] })).text);
}

export default [{
  name: 'qwen', title: 'Qwen Code', version: '0.15.10', npm: ['@qwen-code/qwen-code@0.15.10'],
  tasks: {
    'a tool loop that edits a file (scripted)': async (c) => {
      const cwd = c.folder(), file = path.join(cwd, 'town.txt');
      writeFileSync(file, 'town = Koeln\n');
      const r = await qwen(c, 'scripted', c.steps(c.call('read_file', { file_path: file }),
        `<think>\nI CHANGE the town.\n</think>\n\n${c.call('edit', { file_path: file, old_string: 'Koeln', new_string: 'Kiel' })}`, 'EDIT-DONE'), { cwd });
      assert.equal(r.code, 0, r.text);
      assert.equal(readFileSync(file, 'utf8'), 'town = Kiel\n', r.text);
      assert.match(r.text, /EDIT-DONE/);
    },
    'an image is read, and the session goes on (scripted)': async (c) => {
      const cwd = c.folder(), file = path.join(cwd, 'dot.png');
      writeFileSync(file, c.PNG);
      const r = await qwen(c, 'scripted', c.steps(c.call('read_file', { file_path: file }), c.call('run_shell_command', { command: 'echo seen > seen.txt', is_background: false }), 'IMAGE-DONE'), { cwd });
      assert.equal(r.code, 0, r.text);
      assert.equal(readFileSync(path.join(cwd, 'seen.txt'), 'utf8'), 'seen\n', r.text);
      assert.match(r.text, /IMAGE-DONE/);
      const more = await qwen(c, 'scripted', c.steps('STILL-HERE'), { cwd, more: ['--continue'] });
      assert.match(more.text, /STILL-HERE/);
    },
    'an overflow is compacted, and it goes on (scripted)': (c) => compacted(c),
    'compacts before the window is full, and goes on (scripted)': (c) => compacted(c, 40000),
    'an answer of the real engine': async (c) => {
      const before = await c.generated('real'), r = await qwen(c, 'real', 'Say hello.', { timeout: 500000 });
      assert.equal(r.code, 0, r.text);
      assert.ok((await c.generated('real')) > before, r.text);
    },
  },
}];
