// Programs that others wrote, unmodified, doing a task of theirs against this server. By hand, not part of the check:
//   node tests/clients/run.mjs [--work DIR] [--only NAME,NAME] [--task WORDS] [--write]
// installs what clients/*.mjs name (pinned) into DIR, starts servers on free ports (a scripted engine, a scripted engine with a
// context limit, and the real engine with the demo model at 65,536 tokens), runs each task, and with --write puts their rows into the table
// of docs/CLIENTS.md. SLUICE_PREFIX: where Sluice is installed (build/root).
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { demo, start, top } from '../api/harness.mjs';
import { exported } from './lib/settings.mjs';

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
    const child = spawn(command, args, { cwd, env: { ...process.env, PWD: cwd, ...env }, stdio: ['pipe', 'pipe', 'pipe'] });
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
  return block.replaceAll('http://127.0.0.1:8080', s.url).replaceAll('sk-sluice-YOUR-KEY', s.key).replaceAll(/\bMODEL\b/g, 'demo-model');
}

/** The variables that a page's n-th shell block exports. */
const exportsOf = (page, s, n = 0) => exported(settingsOf(page, 'sh', s, n));

/** An order whose words do not stand in it as they are: what is found in an agent's output or in a prompt was said by the engine. */
const hidden = (o) => `fake:${JSON.stringify(o).replaceAll(/[A-Z ]|(?<=fak)e/g, (c) => `\\u00${c.charCodeAt(0).toString(16)}`)}`;

/** How many tokens an engine has generated so far. */
const generated = async (kind) => (await server(kind)).metric('generation_tokens_total');

const LONG = 'some words of a long question ';

/**
 * One long turn after another, say(prompt, turn), until the agent had the conversation summed up and the model saw the summary.
 * request: words of its request for one; phrases: how long a turn is.
 */
async function untilCompacted(s, request, say, { turns = 8, phrases = 900 } = {}) {
  const refused = () => s.metric('http_requests_total', 'status="400"');
  const before = await refused();
  for (let turn = 0; turn < turns; turn++) {
    const text = await say(`${hidden({ text: `TURN-${turn}`, when: { 'THE-SUMMARY': 'GOES-ON', [request]: 'THE-SUMMARY' } })} ${LONG.repeat(phrases)}`, turn);
    if (text.includes('GOES-ON')) return `works (compacted in turn ${turn + 1}; requests refused with 400: ${(await refused()) - before})`;
    assert.ok(text.includes(`TURN-${turn}`), `turn ${turn}: ${text.slice(-1500)}`);
  }
  throw new Error(`never compacted; requests refused with 400: ${(await refused()) - before}`);
}

/** One long turn after another until one has no answer; what the agent says then. */
async function untilRefused(say) {
  for (let turn = 0; turn < 9; turn++) {
    const text = await say(`${hidden({ text: `TURN-${turn}` })} ${LONG.repeat(900)}`, turn);
    if (!text.includes(`TURN-${turn}`)) return text;
  }
  throw new Error('no prompt was refused');
}

/** A PNG of one pixel. */
const PNG = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');

const contextOf = (client, dir) => ({
  installed: dir, bin: (name) => path.join(dir, 'node_modules/.bin', name), python: path.join(dir, 'venv/bin/python'), venv: (name) => path.join(dir, 'venv/bin', name),
  folder: () => mkdtempSync(path.join(work, `${client.name}-`)), server, sh, settingsOf, exportsOf, hidden, generated, untilCompacted, untilRefused, PNG,
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
        if (!task.includes(argument('task', ''))) continue;
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
  const page = path.join(top, 'docs/CLIENTS.md'), cell = (text) => String(text).replaceAll('\n', ' ').replaceAll('|', '\\|'), today = new Date().toISOString().slice(0, 10);
  const made = rows.map((r) => `| ${[...r, today].map(cell).join(' | ')} |`), ran = (row) => rows.some((r) => row.startsWith(`| ${r.slice(0, 3).map(cell).join(' | ')} |`));
  const kept = existsSync(page) ? readFileSync(page, 'utf8').split('\n').filter((l) => /^\| .* \| \d{4}-\d\d-\d\d \|$/.test(l) && !ran(l)) : [];
  const client = (row) => row.split(' | ').slice(0, 2).join(' ');
  writeFileSync(page, `# Clients, tried

Programs that others wrote, unmodified, each doing a task of its own against Sluice: rows made by \`node tests/clients/run.mjs --write\`, which
leaves the rows of what it did not run. "Scripted" tasks have the whole server with an engine that says what the task needs, so that a tool loop
or an overflow really happens; the others have the demo model with its context raised to ${CONTEXT.toLocaleString('en')} tokens. The settings are those of
[the clients' pages](clients/README.md).

| client | version | task | result | run on |
| --- | --- | --- | --- | --- |
${[...kept, ...made].sort((a, b) => (client(a).toLowerCase() < client(b).toLowerCase() ? -1 : Number(client(a) !== client(b)))).join('\n')}
`);
}
process.exitCode = rows.some((r) => r[3].startsWith('**fails')) ? 1 : 0;
