// An upstream that a test can bend: a small server that speaks OpenAI's, Anthropic's and Ollama's streams, and does wrong on demand.
import http from 'node:http';
import { eventually, PATIENCE, sleep } from './harness.mjs';

const chunk = (delta, more = {}) => `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: null }], ...more })}\n\n`;

/** What nobody waits for keeps no process. */
const idle = (ms) => new Promise((done) => { setTimeout(done, ms).unref(); });

export class FakeUpstream {
  knobs = {}; // status, body, hang, until (a promise), together, logprobs, refuseAfter, raw, words, delay, dieAfter, key, usage, head
  seen = []; // {path, headers, body}
  open = 0; // streams at this moment
  most = 0;
  gone = 0; // clients that left in the middle

  static async open(knobs = {}, port = 0) {
    const u = new this();
    u.knobs = knobs;
    u.server = http.createServer((req, res) => u.serve(req, res).catch(() => res.destroy()));
    await new Promise((done) => { u.server.listen(port, '127.0.0.1', done); });
    u.server.unref(); // one that a failed test leaves open would keep the process for ever
    u.port = u.server.address().port;
    u.url = `http://127.0.0.1:${u.port}/v1`;
    return u;
  }

  async serve(req, res) {
    let text = '';
    for await (const piece of req) text += piece;
    const k = this.knobs;
    if (req.method === 'GET') {
      if (k.probe) { res.writeHead(k.probe).end('{}'); return; }
      res.writeHead(200, { 'content-type': 'application/json' }).end('{"object":"list","data":[]}');
      return;
    }
    const body = JSON.parse(text);
    this.seen.push({ path: req.url, headers: req.headers, raw: req.rawHeaders, body });
    this.open++;
    this.most = Math.max(this.most, this.open);
    res.on('close', () => { this.open--; if (!res.writableEnded) this.gone++; });
    if (k.hang) await idle(k.hang);
    await k.until;
    for (const end = Date.now() + PATIENCE; this.most < (k.together ?? 0) && Date.now() < end;) await sleep(20); // nobody begins before all are there
    if (res.destroyed) return;
    if (k.status) {
      res.writeHead(k.status, { 'content-type': 'application/json', ...k.head }).end(JSON.stringify(k.body ?? { error: { message: `it is ${k.status}` } }));
      return;
    }
    if (k.raw !== undefined) { res.writeHead(200, { 'content-type': 'text/event-stream' }); await this.write(res, k.raw); res.end(); return; }
    if (req.url.endsWith('/api/chat')) { await this.ollama(res); return; }
    if (req.url.endsWith('/messages')) { await this.anthropic(res); return; }
    await this.openai(res, body);
  }

  write(res, text) { return new Promise((done) => { if (res.destroyed || res.write(text)) done(); else { res.once('drain', done); res.once('close', done); } }); }

  async openai(res, body) {
    const k = this.knobs;
    const words = k.words ?? ['Hel', 'lo ', 'you'];
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    if (body.prompt !== undefined) {
      for (const w of words) await this.write(res, `data: ${JSON.stringify({ object: 'text_completion', choices: [{ index: 0, text: w, logprobs: null, finish_reason: null }] })}\n\n`);
      await this.write(res, `data: ${JSON.stringify({ choices: [{ index: 0, text: '', finish_reason: 'length' }], usage: { prompt_tokens: 3, completion_tokens: 4 } })}\n\ndata: [DONE]\n\n`);
      res.end();
      return;
    }
    await this.write(res, chunk({ role: 'assistant', content: '' }));
    for (const r of k.reasoning ?? []) await this.write(res, chunk({ reasoning_content: r }));
    let n = 0;
    for (const w of words) {
      if (k.delay) await sleep(k.delay);
      if (res.destroyed) return;
      if (k.dieAfter === n) { res.destroy(); return; }
      if (k.silentAfter === n) await idle(600000);
      await this.write(res, chunk({ content: w }, body.logprobs && k.logprobs && { choices: [{ index: 0, delta: { content: w }, finish_reason: null, logprobs: k.logprobs(w) && { content: [k.logprobs(w)].flat() } }] }));
      n++;
    }
    for (const c of k.calls ?? []) await this.write(res, chunk({ tool_calls: [c] }));
    await this.write(res, `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: k.finish ?? (k.calls ? 'tool_calls' : 'stop') }] })}\n\n`);
    if (body.stream_options?.include_usage && k.usage !== null) {
      await this.write(res, `data: ${JSON.stringify({ choices: [], usage: k.usage ?? { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18, prompt_tokens_details: { cached_tokens: 4 } } })}\n\n`);
    }
    await this.write(res, 'data: [DONE]\n\n');
    res.end();
  }

  async anthropic(res) {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    const event = (type, o) => this.write(res, `event: ${type}\ndata: ${JSON.stringify({ type, ...o })}\n\n`);
    await event('message_start', { message: { id: 'm', role: 'assistant', content: [], usage: { input_tokens: 5, cache_read_input_tokens: 6, output_tokens: 1 } } });
    await event('content_block_start', { index: 0, content_block: { type: 'thinking', thinking: '' } });
    await event('content_block_delta', { index: 0, delta: { type: 'thinking_delta', thinking: 'hm' } });
    await event('content_block_stop', { index: 0 });
    await event('content_block_start', { index: 1, content_block: { type: 'text', text: '' } });
    await event('ping', {});
    await event('content_block_delta', { index: 1, delta: { type: 'text_delta', text: 'Hel' } });
    await event('content_block_delta', { index: 1, delta: { type: 'text_delta', text: 'lo' } });
    await event('content_block_stop', { index: 1 });
    if (this.knobs.calls) {
      await event('content_block_start', { index: 2, content_block: { type: 'tool_use', id: 't', name: 'look', input: {} } });
      await event('content_block_delta', { index: 2, delta: { type: 'input_json_delta', partial_json: '{"at":' } });
      await event('content_block_delta', { index: 2, delta: { type: 'input_json_delta', partial_json: '"sea"}' } });
      await event('content_block_stop', { index: 2 });
    }
    await event('message_delta', { delta: { stop_reason: this.knobs.calls ? 'tool_use' : 'end_turn' }, usage: { output_tokens: 9 } });
    await event('message_stop', {});
    res.end();
  }

  async ollama(res) {
    res.writeHead(200, { 'content-type': 'application/x-ndjson' });
    const line = (o) => this.write(res, `${JSON.stringify(o)}\n`);
    await line({ message: { role: 'assistant', content: '', thinking: 'hm' }, done: false });
    await line({ message: { role: 'assistant', content: 'Hel' }, done: false });
    await line({ message: { role: 'assistant', content: 'lo', ...(this.knobs.calls && { tool_calls: [{ function: { name: 'look', arguments: { at: 'sea' } } }] }) }, done: false });
    await line({ message: { role: 'assistant', content: '' }, done: true, done_reason: 'stop', prompt_eval_count: 11, eval_count: 7 });
    res.end();
  }

  /** The process of it dies: connections break, nobody listens. */
  async kill() {
    await new Promise((done) => { this.server.close(done); this.server.closeAllConnections(); });
  }

  async stop() { await this.kill().catch(() => {}); }
}

/** Adds an upstream by the API and waits until the relay knows it. */
export async function addUpstream(server, name, url, models, more = {}) {
  const r = await eventually(async () => { // 503: the database was locked for 5 s, on a machine that had much else to do
    const now = await server.json('POST', '/api/admin/upstreams', { name, url, models, ...more });
    if (now.status === 503) throw new Error(now.text);
    return now;
  });
  if (r.status !== 201) throw new Error(`${r.status} ${r.text}`);
  await eventually(async () => {
    const { items } = (await server.json('GET', '/api/admin/upstreams')).body;
    if (!items.find((u) => u.id === r.body.id).status) throw new Error('the relay does not see the upstream');
  });
  return r.body;
}

export const stateOf = async (server, name) => (await server.json('GET', '/api/admin/upstreams')).body.items.find((u) => u.name === name)?.status?.state;
