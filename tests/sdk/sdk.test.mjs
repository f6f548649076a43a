// Clients that others wrote, unmodified, against the server: each test of the Python files is one test here.
// SLUICE_PYTHON: the interpreter of a virtual environment that has requirements.txt.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { order, start, top } from '../api/harness.mjs';

const python = process.env.SLUICE_PYTHON ?? path.join(top, 'build/python/bin/python');
const here = path.join(top, 'tests/sdk');
const skip = existsSync(python) ? false : 'no Python packages';
let s, env;

async function makeKey(terms) {
  const r = await s.json('POST', '/api/keys', { name: 'of the SDKs', ...terms });
  assert.equal(r.status, 201, r.text);
  return r.body.key;
}

before(async () => {
  if (skip) return;
  s = await start({ fake: true });
  const limited = await makeKey({ limits: { tokens_per_minute: 1 } });
  await s.chat({ messages: order({ text: 'x' }) }, { authorization: `Bearer ${limited}` });
  env = { ...process.env, SLUICE_URL: s.url, SLUICE_KEY: s.key, SLUICE_LIMITED_KEY: limited, PYTHONPATH: here,
    // What several of them import is compiled once, also where the machine's own setting says that nothing is to be kept.
    PYTHONPYCACHEPREFIX: process.env.PYTHONPYCACHEPREFIX ?? path.join(path.dirname(python), '../pycache'), PYTHONDONTWRITEBYTECODE: '',
    SLUICE_HISTORY_KEY: await makeKey({ scopes: ['history'] }) };
});
after(() => s?.stop());

/** Runs one file under unittest; gives [{name, status, text}]. */
function run(file) {
  return new Promise((done) => {
    const child = spawn(python, ['-W', 'ignore', '-m', 'unittest', '-v', file], { cwd: here, env });
    let text = '';
    child.stdout.on('data', (d) => { text += d; });
    child.stderr.on('data', (d) => { text += d; });
    child.on('exit', (code) => {
      const results = [...text.matchAll(/^(test_\w+) \(([\w.]+)\).*?\.\.\. [^]*?\b(ok|FAIL|ERROR|skipped)\b/gm)].map(([, name, , status]) => ({ name, status }));
      done({ code, results, text });
    });
  });
}

for (const file of readdirSync(here).filter((f) => /^test_\w+\.py$/.test(f)))
  test(`Python: ${file.slice(5, -3)}`, { skip }, async (t) => {
    const { code, results, text } = await run(file.slice(0, -3));
    for (const r of results) await t.test(r.name, () => assert.equal(r.status, 'ok', text));
    assert.equal(code, 0, text);
    assert.ok(results.length >= 3, text);
  });
