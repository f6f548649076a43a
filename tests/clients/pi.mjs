// pi over each of the three APIs, reasoning on, with the settings of docs/clients/pi.md.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const FORMS = { chat: ['openai-completions', '/v1'], responses: ['openai-responses', '/v1'], messages: ['anthropic-messages', ''] };

/** What pi is started with: its page's settings in a folder of its own. */
async function prepared(c, kind, form, cwd) {
  const s = await c.server(kind), home = path.join(cwd, '.pi-home'), [api, base] = FORMS[form];
  mkdirSync(home, { recursive: true });
  writeFileSync(path.join(home, 'models.json'), c.settingsOf('pi.md', 'json', s).replace(FORMS.chat[0], api).replace(`${s.url}/v1`, s.url + base));
  return { args: ['--provider', 'sluice', '--model', 'demo-model', '--thinking', 'medium'],
    env: { ...c.exportsOf('pi.md', s), PI_CODING_AGENT_DIR: home, PI_OFFLINE: '1', PI_TELEMETRY: '0' } };
}

/** One turn in pi's JSON mode. */
async function pi(c, kind, prompt, { form = 'chat', cwd = c.folder(), more = [], timeout } = {}) {
  const { args, env } = await prepared(c, kind, form, cwd);
  const r = await c.sh(c.bin('pi'), [...args, '--mode', 'json', ...more, '-p', prompt], { cwd, env, timeout });
  const ended = r.text.split('\n').filter((l) => l.startsWith('{')).map((l) => JSON.parse(l)).filter((e) => e.type === 'message_end' && e.message.role === 'assistant');
  const parts = ended.flatMap((e) => e.message.content), texts = (type) => parts.filter((p) => p.type === type).map((p) => p[type]).join('\n');
  return { ...r, cwd, said: texts('text'), thought: texts('thinking'), failed: ended.filter((e) => e.message.stopReason === 'error').map((e) => e.message.errorMessage) };
}

/** pi as a program that stays (its RPC mode): with -p, pi ends before a compaction after a refused prompt does. */
async function staying(c, kind) {
  const cwd = c.folder(), { args, env } = await prepared(c, kind, 'chat', cwd);
  const child = spawn(c.bin('pi'), [...args, '--mode', 'rpc'], { cwd, env: { ...process.env, PWD: cwd, ...env }, stdio: ['pipe', 'pipe', 'inherit'] });
  let heard = () => {}, rest = '';
  child.stdout.on('data', (d) => {
    const lines = (rest + d).split('\n');
    rest = lines.pop();
    for (const line of lines) heard(JSON.parse(line));
  });
  const say = (message) => new Promise((done, failed) => {
    const timer = setTimeout(() => failed(new Error('pi did not answer in time')), 120000);
    heard = (event) => {
      const last = event.type === 'agent_end' && event.messages.filter((m) => m.role === 'assistant').at(-1);
      const text = last ? last.content.filter((p) => p.type === 'text').map((p) => p.text).join('\n') : event.errorMessage;
      if ((last && last.stopReason !== 'error') || (event.type === 'compaction_end' && !event.result)) { clearTimeout(timer); done(text); }
    };
    child.stdin.write(`${JSON.stringify({ type: 'prompt', message })}\n`);
  });
  return { say, stop: () => child.kill() };
}

const loop = (form) => async (c) => {
  const cwd = c.folder(), file = path.join(cwd, 'town.txt');
  writeFileSync(file, 'town = Koeln\n');
  const r = await pi(c, 'scripted', c.steps(c.call('read', { path: file }),
    `<think>\nI CHANGE the town.\n</think>\n\n${c.call('edit', { path: file, edits: [{ oldText: 'Koeln', newText: 'Kiel' }] })}`, 'EDIT-DONE'), { form, cwd });
  assert.equal(r.code, 0, r.text);
  assert.equal(readFileSync(file, 'utf8'), 'town = Kiel\n', r.text);
  assert.match(r.said, /EDIT-DONE/, r.text);
  assert.match(r.thought, /I CHANGE the town/, r.text);
};

const answer = (form) => async (c) => {
  const r = await pi(c, 'real', 'Say hello.', { form, timeout: 500000 });
  assert.equal(r.code, 0, r.text);
  assert.deepEqual(r.failed, []);
  assert.ok(r.said.length + r.thought.length > 0, r.text.slice(-3000));
};

export default [{
  name: 'pi', title: 'pi', version: '0.73.1', npm: ['@mariozechner/pi-coding-agent@0.73.1'],
  tasks: {
    'a tool loop that edits a file, reasoning on (scripted, chat)': loop('chat'),
    'a tool loop that edits a file, reasoning on (scripted, responses)': loop('responses'),
    'a tool loop that edits a file, reasoning on (scripted, messages)': loop('messages'),
    'an image is read, and the session goes on (scripted)': async (c) => {
      const cwd = c.folder(), file = path.join(cwd, 'dot.png');
      writeFileSync(file, c.PNG);
      const r = await pi(c, 'scripted', c.steps(c.call('read', { path: file }), c.call('bash', { command: 'echo seen > seen.txt' }), 'IMAGE-DONE'), { cwd });
      assert.equal(r.code, 0, r.text);
      assert.equal(readFileSync(path.join(cwd, 'seen.txt'), 'utf8'), 'seen\n', r.text);
      assert.match(r.said, /IMAGE-DONE/, r.text);
      const more = await pi(c, 'scripted', c.steps('STILL-HERE'), { cwd, more: ['--continue'] });
      assert.match(more.said, /STILL-HERE/, more.text);
    },
    'an overflow is compacted, and it goes on (scripted, RPC mode)': async (c) => {
      const agent = await staying(c, 'limited');
      try { return await c.untilCompacted(await c.server('limited'), 'context summarization assistant', agent.say); } finally { agent.stop(); }
    },
    'an answer of the real engine (chat)': answer('chat'),
    'an answer of the real engine (responses)': answer('responses'),
    'an answer of the real engine (messages)': answer('messages'),
  },
}];
