// aider over /v1/chat/completions, with the settings of docs/clients/aider.md.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

async function aider(c, kind, message, files, timeout) {
  const s = await c.server(kind), cwd = c.folder();
  writeFileSync(path.join(cwd, '.aider.model.metadata.json'), c.settingsOf('aider.md', 'json', s));
  writeFileSync(path.join(cwd, '.aider.model.settings.yml'), c.settingsOf('aider.md', 'yaml', s));
  writeFileSync(path.join(cwd, '.message'), message);
  for (const [name, text] of Object.entries(files)) writeFileSync(path.join(cwd, name), text);
  const r = await c.sh(c.venv('aider'), ['--model', 'openai/demo-model', '--yes-always', '--no-git', '--no-pretty', '--no-fancy-input', '--no-check-update', '--no-show-release-notes',
    '--analytics-disable', '--no-detect-urls', '--no-show-model-warnings', '--message-file', '.message', ...Object.keys(files)],
  { cwd, timeout, env: { ...c.exportsOf('aider.md', s), HOME: cwd, LITELLM_LOCAL_MODEL_COST_MAP: 'True' } });
  return { ...r, file: (name) => readFileSync(path.join(cwd, name), 'utf8') };
}

const edit = (name, before, after) => `${name}\n\`\`\`\n<<<<<<< SEARCH\n${before}\n=======\n${after}\n>>>>>>> REPLACE\n\`\`\`\n`;

export default [{
  name: 'aider', title: 'aider', version: '0.86.2', pip: ['aider-chat==0.86.2'],
  tasks: {
    'an edit is applied to a file (scripted)': async (c) => {
      const text = `<think>\nI look for the town.\n</think>\n\nThe change:\n\n${edit('town.txt', 'town = Koeln', 'town = Kiel')}`;
      const r = await aider(c, 'scripted', `Correct the town. fake:${JSON.stringify({ text })}`, { 'town.txt': 'land = Germany\ntown = Koeln\n' });
      assert.equal(r.code, 0, r.text);
      assert.equal(r.file('town.txt'), 'land = Germany\ntown = Kiel\n', r.text);
      assert.match(r.text, /Applied edit to town\.txt/, r.text);
    },
    'a prompt that is too long is told as such (scripted)': async (c) => {
      const r = await aider(c, 'limited', 'Shorten the story.', { 'story.txt': 'One more line of a long story.\n'.repeat(6500) });
      assert.match(r.text, /has hit a token limit/, r.text.slice(-3000));
    },
    'an answer of the real engine about a file of 20 KB': async (c) => {
      const r = await aider(c, 'real', 'Say what the story is about.', { 'story.txt': 'The town lies by the sea, and people live there.\n'.repeat(400) }, 500000);
      assert.equal(r.code, 0, r.text);
      const tokens = /Tokens: ([\d.]+k?) sent, ([\d.]+k?) received/.exec(r.text);
      assert.ok(tokens, r.text.slice(-3000));
      return `works (${tokens[1]} tokens sent, ${tokens[2]} received)`;
    },
  },
}];
