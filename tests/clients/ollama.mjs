// Ollama's own packages, for Python and JavaScript, over its API: the code of docs/clients/ollama.md, and an agent's loop.
import assert from 'node:assert/strict';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const lib = path.join(path.dirname(fileURLToPath(import.meta.url)), 'lib');

/** Runs a program in a fresh folder; a module has to lie beside the package that it imports. */
async function run(c, kind, language, code, args = []) {
  const s = await c.server(kind), cwd = c.folder(), file = path.join(language === 'js' ? c.installed : cwd, `program.${language}`);
  if (path.isAbsolute(code)) copyFileSync(code, file);
  else writeFileSync(file, code);
  const r = await c.sh(language === 'js' ? process.execPath : c.python, [file, ...args], { cwd, timeout: 300000, env: c.exportsOf('ollama.md', s) });
  assert.equal(r.code, 0, r.text);
  return { ...r, cwd };
}

async function loop(c, language) {
  const order = c.steps(c.call('write_file', { path: 'town.txt', text: 'Koeln' }), '<think>\nIt is there.\n</think>\n\nThe file is DONE-WRITTEN.');
  const r = await run(c, 'scripted', language, path.join(lib, `ollama_loop.${language}`), [order]);
  assert.equal(readFileSync(path.join(r.cwd, 'town.txt'), 'utf8'), 'Koeln');
  assert.match(r.text, /It is there\.\s+The file is DONE-WRITTEN/);
}

async function page(c, language) {
  const s = await c.server('real'), js = language === 'js', text = 'The town lies by the sea, and people live there. '.repeat(400);
  const [few, at] = js ? ['options: { num_predict: 40 }, ', 'messages: ['] : ['options={"num_predict": 40}, ', 'messages=[']; // the small model may not find an end
  const r = await run(c, 'real', js ? 'js' : 'py', c.settingsOf('ollama.md', language, s).replace('Hello', `${text}Hello`).replace(at, few + at));
  const { length } = r.text.trim();
  assert.ok(length > 0, 'nothing was said');
  return `works (${length} characters)`;
}

export default [{
  name: 'ollama-python', title: "Ollama's package for Python", version: '0.6.3', pip: ['ollama==0.6.3'],
  tasks: {
    'a tool loop that writes a file (scripted)': (c) => loop(c, 'py'),
    'an answer of the real engine': (c) => page(c, 'python'),
  },
}, {
  name: 'ollama-js', title: "Ollama's package for JavaScript", version: '0.6.4', npm: ['ollama@0.6.4'],
  tasks: {
    'a tool loop that writes a file, streamed (scripted)': (c) => loop(c, 'js'),
    'an answer of the real engine, streamed': (c) => page(c, 'js'),
  },
}];
