// Programs that others wrote, unmodified, doing a task of theirs against this server. By hand, not part of the check:
//   node tests/clients/run.mjs [--work DIR] [--only NAME,NAME] [--write]
// installs what clients/*.mjs name (pinned) into DIR, starts servers on free ports (a scripted engine, a scripted engine with a
// context limit, and the real engine with the demo model at 65,536 tokens), runs each task, and with --write puts the table into
// docs/CLIENTS.md. SLUICE_PREFIX: where Sluice is installed (build/root).
import { execFileSync, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { demo, start, top } from '../api/harness.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const argument = (name, otherwise) => { const i = process.argv.indexOf(`--${name}`); return i < 0 ? otherwise : process.argv[i + 1]; };
const work = path.resolve(argument('work', path.join(os.tmpdir(), 'sluice-clients')));
const only = argument('only', '')?.split(',').filter(Boolean);
const CONTEXT = 65536;

/** The demo model with another context; `limited`: the scripted engine holds prompts to it. */
function modelOf(name, context, limited) {
  const dir = path.join(work, 'models', name);
  rmSync(dir, { recursive: true, force: true });
  cpSync(demo, dir, { recursive: true, dereference: true });
  const config = path.join(dir, 'config.json');
  writeFileSync(config, JSON.stringify({ ...JSON.parse(readFileSync(config, 'utf8')), max_position_embeddings: context }));
  if (limited) writeFileSync(path.join(dir, 'fake-context'), '');
  return dir;
}

const servers = {};
const SERVERS = {
  scripted: () => start({ fake: true, model: modelOf('scripted', CONTEXT) }),
  limited: () => start({ fake: true, model: modelOf('limited', 40000, true) }),
  real: () => start({ model: modelOf('real', CONTEXT), args: ['--ctx', String(CONTEXT)] }), // without it 32,768 are served
};
async function server(kind) {
  if (!servers[kind]) {
    servers[kind] = await SERVERS[kind]();
    await servers[kind].json('PATCH', '/api/admin/settings', { model_aliases: '*' });
  }
  return servers[kind];
}

function install(client) {
  const dir = path.join(work, 'installed', client.name), stamp = path.join(dir, '.installed'), wanted = JSON.stringify([client.npm, client.pip]);
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return dir;
  rmSync(dir, { recursive: true, force: true });
  mkdirSync(dir, { recursive: true });
  const quiet = { cwd: dir, stdio: ['ignore', 'ignore', 'inherit'] };
  if (client.npm) {
    writeFileSync(path.join(dir, 'package.json'), '{"private": true, "type": "module"}');
    execFileSync('npm', ['install', '--silent', '--no-audit', '--no-fund', '--ignore-scripts', ...client.npm], quiet);
  }
  if (client.pip) {
    execFileSync('python3', ['-m', 'venv', 'venv'], quiet);
    execFileSync(path.join(dir, 'venv/bin/pip'), ['install', '-q', '--disable-pip-version-check', ...client.pip], quiet);
  }
  writeFileSync(stamp, wanted);
  return dir;
}

/** Runs a program to its end; {code, text}. */
function sh(command, args, { cwd, env, input, timeout = 180000 } = {}) {
  return new Promise((done) => {
    const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'pipe'] });
    let text = '';
    const timer = setTimeout(() => { text += '\n(timed out)'; child.kill('SIGKILL'); }, timeout);
    child.stdout.on('data', (d) => { text += d; });
    child.stderr.on('data', (d) => { text += d; });
    child.on('error', (e) => { text += e; });
    child.on('close', (code) => { clearTimeout(timer); done({ code, text }); });
    child.stdin.on('error', () => {});
    child.stdin.end(input ?? '');
  });
}

/** The text of the n-th code block of that language in a page of docs/clients, with the server's address and key filled in. */
function settingsOf(page, language, s, n = 0) {
  const text = readFileSync(path.join(top, 'docs/clients', page), 'utf8');
  const block = [...text.matchAll(new RegExp(`\`\`\`${language}\\n([^]*?)\`\`\``, 'g'))][n]?.[1];
  if (!block) throw new Error(`${page} has no ${language} block ${n}`);
  return block.replaceAll('http://127.0.0.1:8080', s.url).replaceAll('sk-sluice-YOUR-KEY', s.key).replaceAll('MODEL', 'demo-model');
}

const contextOf = (client, dir) => ({
  installed: dir, bin: (name) => path.join(dir, 'node_modules/.bin', name), python: path.join(dir, 'venv/bin/python'), venv: (name) => path.join(dir, 'venv/bin', name),
  folder: () => mkdtempSync(path.join(work, `${client.name}-`)), server, sh, settingsOf,
  /** An agent's loop for the scripted engine: one text a step. */
  steps: (...list) => `fake:${JSON.stringify({ steps: list })}`,
  call: (name, args) => `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`,
});

mkdirSync(work, { recursive: true });
const rows = [];
for (const file of readdirSync(here).filter((f) => f.endsWith('.mjs') && f !== 'run.mjs').sort()) {
  for (const client of (await import(path.join(here, file))).default) {
    if (only.length && !only.includes(client.name)) continue;
    const versions = client.versions ?? [client.version];
    for (const version of versions) {
      const one = client.of ? { ...client, ...client.of(version) } : client;
      let dir;
      try { dir = install({ ...one, name: `${client.name}-${version}` }); } catch (e) { rows.push([client.title, version, 'install', `not run: ${String(e.message).split('\n')[0]}`]); continue; }
      for (const [task, run] of Object.entries(client.tasks)) {
        const began = Date.now();
        let result;
        try { result = (await run(contextOf(client, dir))) ?? 'works'; } catch (e) { result = `**fails**: ${String(e.message).slice(0, 300)}`; if (process.env.VERBOSE) console.log(e.stack, e.text ?? ''); }
        rows.push([client.title, version, task, result]);
        console.log(`${client.title} ${version}: ${task}: ${result} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
      }
    }
  }
}
for (const s of Object.values(servers)) await s.stop();

if (process.argv.includes('--write')) {
  const cell = (text) => String(text).replaceAll('\n', ' ').replaceAll('|', '\\|');
  writeFileSync(path.join(top, 'docs/CLIENTS.md'), `# Clients, tried

Programs that others wrote, unmodified, each doing a task of its own against Sluice: made by \`node tests/clients/run.mjs --write\` on
${new Date().toISOString().slice(0, 10)}. "Scripted" tasks have the whole server with an engine that says what the task needs, so that a tool loop or an overflow really
happens; the others have the demo model with its context raised to ${CONTEXT.toLocaleString('en')} tokens. The settings are those of [the clients' pages](clients/README.md).

| client | version | task | result |
| --- | --- | --- | --- |
${rows.map((r) => `| ${r.map(cell).join(' | ')} |`).join('\n')}
`);
}
process.exitCode = rows.some((r) => r[3].startsWith('**fails')) ? 1 : 0;
