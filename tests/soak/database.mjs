// A copy of a server's database, opened with the sqlite3 program after every process is dead or stopped.
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { compare } from './ledger.mjs';

const sql = (file, text) => execFileSync('sqlite3', ['-batch', '-json', file, text], { encoding: 'utf8', maxBuffer: 1 << 30 });
const rows = (file, text) => JSON.parse(sql(file, text) || '[]');

/** Copies sluice.db and its WAL, not the -shm: that is what a machine finds after it lost its power. */
export function copy(state) {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'slc-'));
  for (const name of ['sluice.db', 'sluice.db-wal']) if (existsSync(path.join(state, name))) copyFileSync(path.join(state, name), path.join(dir, name));
  return { dir, file: path.join(dir, 'sluice.db'), drop: () => rmSync(dir, { recursive: true, force: true }) };
}

/** SQLite's own checks, and those that its constraints can't make: trees, counted bytes, the search's index. */
export function checkFile(file) {
  const bad = [];
  const expect = (what, text, good = '') => {
    try {
      const said = sql(file, text).trim();
      if (said !== good) bad.push(`${what}: ${said.slice(0, 300)}`);
    } catch (error) { bad.push(`${what}: ${String(error.stderr || error).slice(0, 300)}`); }
  };
  expect('integrity_check', 'PRAGMA integrity_check', '[{"integrity_check":"ok"}]');
  expect('foreign_key_check', 'PRAGMA foreign_key_check');
  expect('a message that no path from the top reaches', `WITH RECURSIVE reached (id) AS (SELECT id FROM messages WHERE parent_id IS NULL
    UNION SELECT m.id FROM messages m JOIN reached r ON m.parent_id = r.id) SELECT id FROM messages WHERE id NOT IN (SELECT id FROM reached)`);
  expect('a conversation without its leaf', `SELECT id FROM conversations c WHERE deleted_at IS NULL AND leaf_id IS NULL
    AND EXISTS (SELECT 1 FROM messages WHERE conversation_id = c.id)`);
  expect('counted bytes', `SELECT t.user_id, t.bytes FROM user_texts t WHERE t.bytes <> coalesce((SELECT sum(length(CAST(m.content AS BLOB)) + length(CAST(m.reasoning AS BLOB))
    + length(CAST(coalesce(m.tool_calls, '') || coalesce(m.tool_call_id, '') || coalesce(m.error, '') || coalesce(m.model, '') || coalesce(m.job_key, '') || coalesce(m.parser, '') || coalesce(m.timings, '') || coalesce(m.error_detail, '') AS BLOB)))
    FROM messages m JOIN conversations c ON c.id = m.conversation_id WHERE c.user_id = t.user_id), 0)`);
  for (const index of ['message_search', 'attachment_search', 'part_search']) expect(`the index ${index}`, `INSERT INTO ${index} (${index}) VALUES ('integrity-check')`);
  return bad;
}

/** Conversations of the copy, in the form of the API. */
export function contents(file) {
  const found = new Map();
  for (const c of rows(file, 'SELECT id, title, pinned, leaf_id FROM conversations WHERE deleted_at IS NULL')) {
    found.set(String(c.id), { title: c.title, pinned: c.pinned, leaf_id: c.leaf_id === null ? null : String(c.leaf_id), tags: [], messages: [] });
  }
  for (const t of rows(file, 'SELECT conversation_id, tag FROM conversation_tags')) found.get(String(t.conversation_id))?.tags.push(t.tag);
  for (const m of rows(file, 'SELECT id, conversation_id, parent_id, role, status, content, reasoning FROM messages ORDER BY id')) {
    found.get(String(m.conversation_id))?.messages.push({ ...m, id: String(m.id), parent_id: m.parent_id === null ? null : String(m.parent_id) });
  }
  return found;
}

/** Everything that the ledger has been told, against a copy. The ledger is taken as it is: give a clone of one in use. */
export function compareAll(ledger, file) {
  const found = contents(file);
  const bad = [], short = [];
  for (const c of ledger.conversations.values()) {
    const r = compare(c, found.get(c.id) ?? null);
    bad.push(...r.bad);
    short.push(...r.short);
  }
  const strangers = [...found.keys()].filter((id) => !ledger.conversations.has(id)).length;
  if (strangers > ledger.unacknowledged) bad.push(`${strangers} conversations of nobody, ${ledger.unacknowledged} were asked for and not acknowledged`);
  return { bad, short };
}
