// The examples of the documents, run as they stand against a real server: curl in a shell, Python and JavaScript by their own programs. What
// they ask for goes through a proxy that notes it, so that each endpoint is seen to have one in each language.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import { after, before, test } from 'node:test';
import { modelFiles, startHub } from '../cli/hub.mjs';
import { demo, eventually, sideModels, sidesReady, start, top } from './harness.mjs';
import { startMcp } from './mcp_server.mjs';

const LANGUAGES = { sh: 'curl', python: 'Python', js: 'JavaScript' };
const modules = process.env.SLUICE_NODE_MODULES ?? path.join(top, 'build/node/node_modules');
const python = process.env.SLUICE_PYTHON ?? path.join(top, 'build/python/bin/python');
const read = (f) => readFileSync(path.join(top, f), 'utf8');

// What a program alone can't do, or what never has a good answer: docs/examples/README.md says so too.
const WITHOUT = [/^\w+ \/api\/(login\/)?passkey(?!s$)/, /^POST \/api\/passkeys$/, /^\w+ \/api\/oidc\/(callback|code|link|sign-in|unlink)/, /^POST \/api\/second-factor\//,
  /^\w+ \/api\/tool-sign-in\/(callback|client\.json)$/, /^\w+ \/api\/tool-servers\/\{\w+\}\/sign-in$/, // a browser's: tool_accounts.test.mjs
  /^POST \/api\/session\/confirm\/options/, /^\w+ \/api\/(create|copy|delete|push|blobs)\b/,
  /^POST \/api\/messages\/\{\w+\}\/calls\//, // of an answer that calls a tool: tools.test.mjs
  /^POST \/api\/admin\/registry($|\/)/, // of folders that a machine has: local_models.test.mjs
  /^POST \/v1\/responses\/\{\w+\}\/cancel$/, /^POST \/infill$/, // the demo model has no tokens for it
  /^\w+ \/(ready|v1\/health|chat\/completions|completions|responses|models|embeddings?|(v2\/)?rerank)$/]; // other names
// Blocks of other documents that need another machine, another client or root, and what runs them.
const ELSEWHERE = {
  'README.md': { './quickstart': '.ci/run' },
  'CONTRIBUTING.md': { './quickstart': '.ci/run' },
  'docs/clients/README.md': { 'sluice launch': 'tests/api/launch.test.mjs' },
  'docs/clients/aider.md': { export: 'tests/clients/aider.mjs' },
  'docs/clients/claude-code.md': { export: 'tests/clients/claude_code.mjs' },
  'docs/clients/cline.md': { 'cline auth': 'tests/clients/cline.mjs' },
  'docs/clients/codex.md': { export: 'tests/clients/codex.mjs' },
  'docs/clients/gptme.md': { export: 'tests/clients/gptme.mjs' },
  'docs/clients/litellm.md': { export: 'tests/clients/litellm.mjs' },
  'docs/clients/lm-eval.md': { export: 'tests/clients/lm_eval.mjs' },
  'docs/clients/ollama.md': { export: 'tests/clients/ollama.mjs' },
  'docs/clients/open-webui.md': { export: 'tests/clients/open_webui.mjs' },
  'docs/clients/opencode.md': { export: 'tests/clients/opencode.mjs' },
  'docs/clients/pi.md': { export: 'tests/clients/pi.mjs' },
  'docs/clients/qwen-code.md': { export: 'tests/clients/qwen_code.mjs' },
  'docs/operations/users.md': { 'sluice group': 'tests/api/groups.test.mjs' },
  'docs/operations/models.md': { 'sluice models add': 'tests/api/local_models.test.mjs' },
  'docs/SCALING.md': { 'sluice upstream add': 'tests/api/upstreams.test.mjs', 'gpu$': 'tests/api/upstream_peers.test.mjs' },
  'docs/operations/install.md': { 'sudo apt': 'tests/package/chroot.sh', 'podman run': 'tests/package/image.sh', autoreconf: 'quickstart' },
};

/** {page, section, language, text} of each block that is fenced as one of the languages. */
function blocks(page) {
  const out = [];
  let section = '';
  for (const [, title, language, text] of read(page).matchAll(/^## (.*)$|^```(sh|python|js)\n([^]*?)^```$/gm)) {
    if (title) section = title;
    else out.push({ page, section, language, text });
  }
  return out;
}
const pages = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', ...readdirSync(path.join(top, 'docs'), { recursive: true }).filter((f) => f.endsWith('.md')).map((f) => `docs/${f}`)].sort();
const all = pages.filter((p) => p !== 'docs/API.md').flatMap(blocks); // curl.test.mjs runs API.md's
const elsewhere = (b) => Object.entries(ELSEWHERE[b.page] ?? {}).find(([begin]) => b.text.startsWith(begin))?.[1];
const setUp = Object.fromEntries(blocks('docs/examples/README.md').map((b) => [b.language, b.text]));
const examples = all.filter((b) => b.page !== 'docs/examples/README.md' && !elsewhere(b));

let s, hub, mcp, proxy, dir, url;
const asked = { sh: new Set(), python: new Set(), js: new Set() };
let running = 'sh', good = 0;
const bad = [];

/** Passes everything on, and notes what was asked for and answered well. */
function startProxy(port) {
  const server = http.createServer((req, res) => {
    const on = http.request({ port, host: '127.0.0.1', method: req.method, path: req.url, headers: req.headers }, (answer) => {
      const what = `${req.method} ${decodeURI(req.url.split('?')[0])}`;
      if (answer.statusCode >= 400) bad.push(`${what}: ${answer.statusCode}`);
      else good += asked[running].add(what) && 1;
      res.writeHead(answer.statusCode, answer.headers);
      answer.pipe(res);
    });
    on.on('error', () => res.destroy());
    res.on('close', () => on.destroy());
    req.pipe(on);
  });
  return new Promise((done) => { server.listen(0, '127.0.0.1', () => done(server.unref())); });
}

before(async () => {
  dir = mkdtempSync(path.join(os.tmpdir(), 'slx-'));
  symlinkSync(modules, path.join(dir, 'node_modules'));
  const files = modelFiles(demo);
  hub = await startHub(files, { blobs: true });
  mcp = await startMcp();
  s = await start({ args: ['--hub', hub.url, ...sideModels] });
  await sidesReady(s);
  await s.json('PATCH', '/api/admin/settings', { tool_servers: 'admin', tool_servers_private: true }); // ours is on this machine
  proxy = await startProxy(s.port);
  url = `http://127.0.0.1:${proxy.address().port}`;
});
after(async () => {
  proxy?.closeAllConnections();
  proxy?.close();
  copies?.child.stdin.end();
  await s?.stop();
  hub?.stop();
  await mcp?.stop();
  if (dir) rmSync(dir, { recursive: true, force: true });
});

// What the reader's shell does, but for: silence, and failure when the status is 400 or more.
const CURL = 'set -e -o pipefail\ncurl() { command curl -sS --fail-with-body --max-time 60 "$@" && echo; }\n';
const PROGRAMS = { sh: ['bash', 'sh'], js: [process.execPath, 'mjs'] };

// Python's clients take longer to import than all they are asked to do: one process has them, and each example is a copy of it.
const COPIES = `import importlib, json, os, runpy, sys
for name in ("requests", "openai", "anthropic", "ollama"):
    importlib.import_module(name)
print("{}", flush=True)
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        os.chdir(line.strip())
        for to, fd in (("out", 1), ("err", 2)):
            os.dup2(os.open(to, os.O_CREAT | os.O_WRONLY), fd)
        runpy.run_path("example.py", run_name="__main__")
        sys.stdout.flush()
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    print(json.dumps({"code": os.waitstatus_to_exitcode(status)}), flush=True)
`;
let copies; // it, and where its next line goes
async function copyOfPython(where, env) {
  if (!copies) {
    const child = spawn(python, ['-c', COPIES], { env, stdio: ['pipe', 'pipe', 'inherit'] });
    copies = { child, lines: readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]() };
    await copies.lines.next();
  }
  copies.child.stdin.write(`${where}\n`);
  const { value } = await copies.lines.next();
  const [out, err] = ['out', 'err'].map((f) => readFileSync(path.join(where, f), 'utf8'));
  return { code: JSON.parse(value ?? '{}').code, out, err };
}

function run(b) {
  const [program, ending] = PROGRAMS[b.language] ?? [null, 'py'], name = `example.${ending}`, where = path.join(dir, 'run');
  rmSync(where, { recursive: true, force: true });
  mkdirSync(where);
  const own = b.page.startsWith('docs/examples/');
  const lines = b.language === 'sh' ? setUp.sh.replace(/^\. .*\n/, '') : own ? setUp[b.language] : '';
  const text = b.text.replace(/^\. var\/quickstart.env\n/m, '').replaceAll('http://127.0.0.1:8080', url).replaceAll('https://tools.example.com/mcp', mcp.url).replaceAll('sk-sluice-YOUR-KEY', s.key).replaceAll('"MODEL"', '"demo-model"');
  writeFileSync(path.join(where, name), (b.language === 'sh' ? CURL : '') + lines + text);
  running = b.language;
  const env = { ...process.env, SLUICE_URL: url, SLUICE_API_KEY: s.key, SLUICE_ADMIN_USER: s.admin.name, SLUICE_ADMIN_PASSWORD: s.admin.password };
  if (b.language === 'python') return copyOfPython(where, env);
  return new Promise((done) => {
    const child = spawn(program, [name], { cwd: where, env });
    let out = '', err = '';
    child.stdout.on('data', (d) => { out += d; });
    child.stderr.on('data', (d) => { err += d; });
    child.on('close', (code) => done({ code, out, err }));
  });
}

test('each block is run here, or named with what runs it', () => {
  for (const [page, table] of Object.entries(ELSEWHERE)) for (const [begin, file] of Object.entries(table)) {
    assert.ok(all.some((b) => b.page === page && b.text.startsWith(begin)), `${page} has no block that begins with ${begin}`);
    assert.ok(existsSync(path.join(top, file)), file);
  }
  assert.ok(examples.length > 100);
  assert.deepEqual(Object.keys(setUp).sort(), Object.keys(LANGUAGES).sort());
  for (const b of examples) assert.ok(examples.filter((c) => c.page === b.page && c.section === b.section).length === 3 || !b.page.startsWith('docs/examples/'), `${b.page}, ${b.section}: three languages`);
});

for (const b of examples)
  test(`${b.page.replace('docs/', '')}: ${b.section}, ${LANGUAGES[b.language]}`, async () => {
    // what the block before asked `sluice up` for lies there until it is taken; another request meanwhile is a conflict
    await eventually(() => assert.ok(!existsSync(path.join(s.dir, 'state/models.request'))));
    const before = good, r = await run(b);
    assert.equal(r.code, 0, (r.out + r.err).slice(-3000));
    assert.ok(good > before, `it asks for something: ${r.out}${r.err}`);
    assert.equal(bad.splice(0).join(), '', 'nothing that it asks for is refused');
  });

test('each endpoint was asked in each language', async () => {
  const { paths } = (await s.json('GET', '/openapi.json')).body, missing = [];
  for (const [route, methods] of Object.entries(paths)) {
    const re = new RegExp(`^${route.replaceAll('.', '\\.').replace(/\{\w+\}/g, '[^/]+')}$`);
    for (const method of Object.keys(methods).filter((m) => !WITHOUT.some((w) => w.test(`${m.toUpperCase()} ${route}`)))) for (const [language, seen] of Object.entries(asked)) {
      if (![...seen].some((q) => q.startsWith(`${method.toUpperCase()} `) && re.test(q.slice(method.length + 1)))) missing.push(`${LANGUAGES[language]}: ${method.toUpperCase()} ${route}`);
    }
  }
  assert.deepEqual(missing, []);
});
