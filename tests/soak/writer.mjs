// A client that writes, edits, regenerates, forks and deletes at random, notes in a ledger what it was told, and reads it back.
import { events } from '../api/answers.mjs';
import { sleep } from '../api/harness.mjs';
import { addMessage, below, compare, fieldsOf } from './ledger.mjs';

const pick = (list) => list[Math.floor(Math.random() * list.length)];
const words = 'river stone lamp winter garden number letter bridge story apple engine window paper quiet morning'.split(' ');
const text = (n) => Array.from({ length: n }, () => pick(words)).join(' ');
const LOST = new Set([502, 503, 504]); // what a kill may cost a request; nothing else is excused

export class Writer {
  constructor(server, ledger, name) {
    Object.assign(this, { server, ledger, name, own: [], bad: [], short: [], running: true, n: 0 });
    this.count = { asked: 0, lost: 0, streams: 0, broken: 0 };
  }

  /** -> {status, body}; status 0: the connection broke, or a process died: what was asked may have been done or not. */
  async ask(method, where, body) {
    this.count.asked++;
    try {
      const r = await this.server.json(method, where, body);
      if (!LOST.has(r.status)) {
        if (r.status >= 500) this.bad.push(`${method} ${where}: ${r.status} ${r.text.slice(0, 200)}`);
        return r;
      }
    } catch { /* broken */ }
    this.count.lost++;
    await sleep(500); // a worker whose nginx died ends what it began
    return { status: 0 };
  }

  expect(r, statuses, what) {
    if (r.status && !statuses.includes(r.status)) this.bad.push(`${what}: ${r.status} ${r.text?.slice(0, 200)}`);
  }

  async create() {
    const title = `${this.name} ${this.n++}`;
    this.ledger.unacknowledged++;
    const r = await this.ask('POST', '/api/conversations', { title, settings: { temperature: 0.8 } });
    this.expect(r, [201], 'create');
    if (r.status !== 201) return;
    this.ledger.unacknowledged--;
    this.own.push(this.ledger.add(r.body.id, fieldsOf(r.body)));
  }

  /** One request that is answered by a stream. */
  async post(c, body) {
    this.count.asked++;
    this.count.streams++;
    c.open++;
    if (body.content) c.sent.push(body.content);
    const leave = Math.random() < 0.2 ? Math.random() * 1500 : null;
    const control = new AbortController();
    let answer = null, ended = false;
    const began = Date.now();
    try {
      const r = await fetch(`${this.server.url}/api/conversations/${c.id}/messages`, { method: 'POST', signal: control.signal, body: JSON.stringify(body),
        headers: { authorization: `Bearer ${this.server.key}`, 'content-type': 'application/json' } });
      if (!r.headers.get('content-type')?.startsWith('text/event-stream')) {
        const said = await r.text();
        if (![404, 409, ...LOST].includes(r.status)) this.bad.push(`post: ${r.status} ${said.slice(0, 200)}`);
        if (!LOST.has(r.status)) { c.open--; return; }
      } else {
        if (leave !== null) setTimeout(() => control.abort(), leave).unref();
        for await (const { event, data } of events(r)) {
          if (event === 'start') {
            c.open--;
            this.ledger.acknowledged++;
            if (data.user_message) addMessage(c, data.user_message);
            answer = addMessage(c, data.message, { began });
          } else if (event === 'delta') {
            answer.text += (data.reasoning ?? '') + (data.content ?? '');
          } else if (event === 'done') {
            answer.final = data.message;
            this.ledger.acknowledged++;
            ended = true;
          } else if (event === 'error') ended = true;
        }
      }
    } catch (error) {
      if (!control.signal.aborted && error.name !== 'AbortError' && !/^(fetch failed( \(.*\))?|terminated)$/s.test(error.message)) this.bad.push(`stream: ${error.stack}`);
    }
    if (answer) answer.ended = Date.now();
    if (!ended && !control.signal.aborted) {
      this.count.broken++;
      await sleep(500);
    }
  }

  async change(c) {
    const body = { title: `${this.name} ${text(3)} ${this.n++}`, pinned: Math.random() < 0.5, tags: [pick(words), `t${this.n}`] };
    const before = [...c.fields];
    c.fields.add(fieldsOf(body));
    const r = await this.ask('PATCH', `/api/conversations/${c.id}`, body);
    this.expect(r, c.gone === 'no' ? [200] : [200, 404], 'change');
    if (r.status === 200) {
      c.fields = new Set([fieldsOf(body)]);
      this.ledger.acknowledged++;
    } else if (r.status) c.fields = new Set(before);
  }

  async remove(c) {
    const before = c.gone;
    c.gone = 'maybe';
    const r = await this.ask('DELETE', `/api/conversations/${c.id}`);
    this.expect(r, before === 'no' ? [204] : [204, 404], 'delete');
    if (r.status === 204 || r.status === 404) c.gone = 'yes';
    if (r.status === 204) this.ledger.acknowledged++;
  }

  async cut(c, m) {
    const hit = below(c, m.id).map((x) => [x, x.gone]);
    for (const [x, gone] of hit) if (gone === 'no') x.gone = 'maybe';
    c.branches++;
    const r = await this.ask('DELETE', `/api/messages/${m.id}`);
    this.expect(r, [204, 409, ...(hit[0][1] === 'no' && c.gone === 'no' ? [] : [404])], 'delete of a message');
    for (const [x, gone] of hit) {
      if (r.status === 204 || (r.status === 404 && x === m)) x.gone = 'yes';
      else if (r.status === 409) x.gone = gone;
    }
    if (r.status === 204) this.ledger.acknowledged++;
  }

  async fork(c, m) {
    const path = [];
    for (let x = m; x; x = c.messages.get(x.parent)) {
      path.unshift(x.final ? x.final.reasoning + x.final.content : x.role === 'user' ? x.text : null);
      if (x.parent !== null && !c.messages.has(x.parent)) return; // one that came of a broken request, not read yet
    }
    this.ledger.unacknowledged++;
    const r = await this.ask('POST', `/api/conversations/${c.id}/fork`, { from_message_id: m.id, title: `${this.name} fork ${this.n++}` });
    this.expect(r, [201, 409, ...(m.gone === 'no' && c.gone === 'no' ? [] : [400, 404])], 'fork');
    if (r.status) this.ledger.unacknowledged--;
    if (r.status === 201) this.own.push(this.ledger.add(r.body.id, fieldsOf(r.body), path));
  }

  async read(c) {
    const r = await this.ask('GET', `/api/conversations/${c.id}`);
    this.expect(r, [200, 404], 'read');
    if (r.status !== 200 && r.status !== 404) return null;
    const { bad, short } = compare(c, r.status === 200 ? r.body : null);
    this.bad.push(...bad);
    this.short.push(...short.filter((x) => x.status !== 'running'));
    return r;
  }

  async step() {
    const live = this.own.filter((c) => c.gone !== 'yes');
    if (live.length < 3) return this.create();
    const c = pick(live), dice = Math.random();
    const known = [...c.messages.values()].filter((m) => m.gone !== 'yes');
    const answers = known.filter((m) => m.final), users = known.filter((m) => m.role === 'user');
    const settings = { max_tokens: 10 + Math.floor(Math.random() * 150), temperature: 0.8 };
    if (dice < 0.42) return this.post(c, { content: `${text(6)} ${this.name}.${this.n++}`, settings });
    if (dice < 0.5) return this.post(c, { content: `edited ${text(4)} ${this.name}.${this.n++}`, parent_id: null, settings });
    if (dice < 0.58 && answers.length) return this.post(c, { regenerate: pick(answers).id, settings });
    if (dice < 0.7) return this.change(c);
    if (dice < 0.76 && users.length > 1) return this.cut(c, pick(users));
    if (dice < 0.8 && live.length > 4) return this.remove(c);
    if (dice < 0.85 && answers.length && live.length < 12) return this.fork(c, pick(answers));
    if (dice < 0.88) return this.create();
    return this.read(c);
  }

  async run() {
    while (this.running) await this.step();
  }
}
