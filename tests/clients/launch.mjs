// `sluice launch` with the real clients: each does a task with the settings that were written for it, and --restore leaves its folder as it was.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { program } from '../api/harness.mjs';

/** Runs the client through `sluice launch` in a home of its own; what it had there before is there again afterwards. */
async function launched(c, client, { kind = 'scripted', bin, file, old, words, input, env = {} }) {
  const s = await c.server(kind), cwd = c.folder(), key = path.join(cwd, 'key'), settings = path.join(cwd, file);
  writeFileSync(key, `${s.key}\n`);
  mkdirSync(path.dirname(settings), { recursive: true });
  writeFileSync(settings, old);
  const args = ['launch', client, '--home', cwd, '--url', s.url, '--key-file', key];
  const config = await c.sh(program('sluice'), [...args, '--config', '--yes'], { cwd });
  assert.equal(config.code, 0, config.text);
  // the scripted engine says 4096 of itself, and takes more
  writeFileSync(settings, readFileSync(settings, 'utf8').replaceAll(/\b4096\b/g, '65536'));
  const r = await c.sh(program('sluice'), [...args, '--', ...words], { cwd, input, env: { PATH: `${bin}:${process.env.PATH}`, ...env } });
  const back = await c.sh(program('sluice'), [...args, '--restore'], { cwd });
  assert.equal(back.code, 0, back.text);
  assert.equal(readFileSync(settings, 'utf8'), old);
  return { ...r, cwd };
}
const modules = (c) => path.join(c.installed, 'node_modules/.bin');

export default [{
  name: 'launch-codex', title: 'Codex CLI by `sluice launch`', versions: ['0.169.0'], of: (v) => ({ npm: [`@openai/codex@${v}`] }),
  tasks: {
    'a tool loop that writes a file, and its settings as before (scripted)': async (c) => {
      const r = await launched(c, 'codex', { bin: modules(c), file: '.codex/config.toml', old: '# mine\nmodel = "other"\n',
        words: ['exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', '-'],
        input: c.steps(c.call('exec_command', { cmd: 'printf Koeln > town.txt' }), 'The file is DONE-WRITTEN.') });
      assert.equal(r.code, 0, r.text);
      assert.equal(readFileSync(path.join(r.cwd, 'town.txt'), 'utf8'), 'Koeln', r.text);
      assert.ok(r.text.includes('DONE-WRITTEN'), r.text);
    },
  },
}, {
  name: 'launch-claude', title: 'Claude Code by `sluice launch`', versions: ['2.1.330'], of: (v) => ({ npm: [`@anthropic-ai/claude-code@${v}`] }),
  tasks: {
    'an answer, and its settings as before (scripted)': async (c) => {
      const bin = path.join(c.installed, 'node_modules/@anthropic-ai/claude-code-linux-x64');
      assert.ok(existsSync(path.join(bin, 'claude')));
      const r = await launched(c, 'claude', { bin, file: '.claude/settings.json', old: '{"permissions":{"allow":["Bash(ls)"]}}', words: ['-p', '--output-format', 'json'],
        input: c.steps('ANSWERED-HERE'), env: { IS_SANDBOX: '1', DISABLE_AUTOUPDATER: '1', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', ANTHROPIC_API_KEY: '' } });
      assert.equal(r.code, 0, r.text);
      assert.ok(r.text.includes('ANSWERED-HERE'), r.text);
    },
  },
}, {
  name: 'launch-opencode', title: 'opencode by `sluice launch`', versions: ['1.18.33'], of: (v) => ({ npm: [`opencode-ai@${v}`] }),
  tasks: {
    'an answer, and its settings as before (scripted)': async (c) => {
      const r = await launched(c, 'opencode', { bin: path.join(c.installed, 'node_modules/opencode-linux-x64/bin'), file: '.config/opencode/opencode.json', old: '{"theme":"system"}\n',
        words: ['run', '--auto'], input: c.steps('ANSWERED-HERE'), env: { OPENCODE_DISABLE_MODELS_FETCH: '1', OPENCODE_DISABLE_AUTOUPDATE: '1', OPENCODE_DISABLE_LSP_DOWNLOAD: '1' } });
      assert.equal(r.code, 0, r.text);
      assert.ok(r.text.includes('ANSWERED-HERE'), r.text);
    },
  },
}, {
  name: 'launch-aider', title: 'aider by `sluice launch`', version: '0.86.2', pip: ['aider-chat==0.86.2'],
  tasks: {
    'an edit is applied, and its settings as before (scripted)': async (c) => {
      const edit = 'town.txt\n```\n<<<<<<< SEARCH\ntown = Koeln\n=======\ntown = Kiel\n>>>>>>> REPLACE\n```\n';
      const message = `printf '%s' "$1" >"$HOME/.message"; printf 'town = Koeln\\n' >"$HOME/town.txt"`;
      const text = `Correct the town. fake:${JSON.stringify({ text: edit })}`;
      const bin = path.join(c.folder(), 'bin');
      mkdirSync(bin, { recursive: true });
      writeFileSync(path.join(bin, 'aider'), `#!/bin/sh\n${message}\nshift\nexec '${c.venv('aider')}' "$@"\n`, { mode: 0o755 });
      const r = await launched(c, 'aider', { bin, file: '.aider.conf.yml', old: 'dark-mode: true', words: [text, '--yes-always', '--no-git', '--no-pretty', '--no-fancy-input', '--no-check-update',
        '--no-show-release-notes', '--analytics-disable', '--no-detect-urls', '--no-show-model-warnings', '--message-file', '.message', 'town.txt'], env: { LITELLM_LOCAL_MODEL_COST_MAP: 'True' } });
      assert.equal(r.code, 0, r.text);
      assert.equal(readFileSync(path.join(r.cwd, 'town.txt'), 'utf8'), 'town = Kiel\n', r.text);
    },
  },
}];
