// What clients were told, and what a server may therefore not lose. A client notes what it is about to ask (from then on it
// may be so), and what was acknowledged (from then on it must be so); compare() holds the rows against that.

const whole = (m) => (m.reasoning ?? '') + (m.content ?? '');
export const fieldsOf = (c) => JSON.stringify({ title: c.title, pinned: Boolean(c.pinned), tags: [...c.tags].sort() });

export class Ledger {
  constructor() {
    this.conversations = new Map();
    this.unacknowledged = 0; // conversations that were asked for and may be there
    this.acknowledged = 0;   // writes
  }

  /** id: its conversation; fields: as acknowledged; copies: the texts of a fork, whose
   * ids are not known yet; null: a text that the client does not know. */
  add(id, fields, copies = null) {
    const c = { id, fields: new Set([fields]), gone: 'no', messages: new Map(), sent: [], open: 0, copies, branches: 0, late: new Set() };
    this.conversations.set(id, c);
    this.acknowledged++;
    return c;
  }
}

/** A message that was acknowledged. text: what its row begins with; final: the row as it was told to be at last. */
export function addMessage(c, m, known = {}) {
  const noted = { id: m.id, parent: m.parent_id, role: m.role, gone: 'no', text: m.role === 'user' ? m.content : '', ...known };
  c.messages.set(m.id, noted);
  return noted;
}

/** Itself and all known messages below it. */
export function below(c, id) {
  const found = new Set([id]);
  for (const m of [...c.messages.values()].sort((a, b) => Number(a.id) - Number(b.id))) if (found.has(m.parent)) found.add(m.id);
  return [...found].map((x) => c.messages.get(x)).filter(Boolean);
}

function tree(c, rows) {
  const bad = [];
  for (const m of rows.values()) {
    if (m.parent_id !== null && !rows.has(m.parent_id)) bad.push(`message ${m.id} hangs on ${m.parent_id}, which is not there`);
    if (m.parent_id !== null && Number(m.parent_id) >= Number(m.id)) bad.push(`message ${m.id} is older than its parent`);
  }
  if (c.leaf_id === null ? rows.size : !rows.has(c.leaf_id)) bad.push(`leaf ${c.leaf_id} of ${rows.size} messages`);
  return bad;
}

function compareMessage(m, row, short) {
  if (row.role !== m.role || row.parent_id !== m.parent) return [`message ${m.id} changed its place`];
  if (m.role === 'user') return row.content === m.text ? [] : [`message ${m.id} has another text`];
  if (m.final) {
    const same = ['status', 'content', 'reasoning'].every((f) => m.final[f] === row[f]);
    return same ? [] : [`answer ${m.id} was told to be ended (${m.final.status}) and is not what it was (${row.status})`];
  }
  if (!whole(row).startsWith(m.text)) short.push({ id: m.id, shown: m.text.length, kept: whole(row).length, prefix: m.text.startsWith(whole(row)), began: m.began, ended: m.ended, status: row.status });
  return [];
}

/** Rows that nobody was told of: an answer to a request that broke may be there, and nothing else. */
function strangers(c, rows) {
  const bad = [];
  for (const row of rows.values()) {
    if (c.messages.has(row.id)) continue;
    if (row.role === 'user' && !c.sent.includes(row.content)) bad.push(`message ${row.id} was written by nobody: ${row.content.slice(0, 60)}`);
    if (!c.open) bad.push(`message ${row.id}: every request had its answer`);
    if (row.role === 'user' && !c.branches && ![...rows.values()].some((m) => m.parent_id === row.id)) bad.push(`message ${row.id} came without its answer`);
    addMessage(c, row, { gone: c.messages.get(row.parent_id)?.gone === 'maybe' ? 'maybe' : 'no' });
  }
  return bad;
}

const line = (c, m) => { const out = []; for (let x = c.messages.get(m.parent); x; x = c.messages.get(x.parent)) out.push(`${x.id} ${x.gone}`); return out.join(', '); };

/** A deletion that broke off may come through later than what was written below it meanwhile, and takes that along: c.late. */
function cutAbove(c, m, rows) {
  for (let x = c.messages.get(m.parent); x; x = c.messages.get(x.parent)) if (x.gone === 'maybe' && !rows.has(x.id)) return true;
  return false;
}

/** c: of the ledger; actual: {title, pinned, tags, leaf_id, messages} or null. -> {bad: texts, short: answers whose row has
 * less than a reader saw}. Takes over what may be and is. */
export function compare(c, actual) {
  const short = [];
  if (!actual) return { bad: c.gone === 'no' ? [`conversation ${c.id} is lost`] : [], short };
  if (c.gone === 'yes') return { bad: [`conversation ${c.id} came back`], short };
  const rows = new Map(actual.messages.map((m) => [m.id, m]));
  const bad = tree(actual, rows);
  if (!c.fields.has(fieldsOf(actual))) bad.push(`conversation ${c.id} is ${fieldsOf(actual)}, not ${[...c.fields].join(' or ')}`);
  if (c.copies) {
    const got = actual.messages.slice(0, c.copies.length).map(whole);
    if (c.copies.some((text, i) => (text === null ? got[i] === undefined : got[i] !== text))) bad.push(`fork ${c.id} is not what it was made from`);
    for (const m of actual.messages.slice(0, c.copies.length)) addMessage(c, m);
    c.copies = null;
  }
  for (const m of c.messages.values()) {
    const row = rows.get(m.id);
    if (!row && m.gone === 'no' && cutAbove(c, m, rows)) c.late.add(m.id);
    else if (!row && m.gone === 'no') bad.push(`message ${m.id} (${m.role}) is lost; above it: ${line(c, m)}`);
    else if (row && m.gone === 'yes') bad.push(`message ${m.id} came back`);
    else if (row) bad.push(...compareMessage(m, row, short));
  }
  bad.push(...strangers(c, rows));
  return { bad: bad.map((b) => `conversation ${c.id}: ${b}`), short };
}
