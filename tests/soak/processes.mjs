// A server's processes while they are killed, and when it serves again: shared by the scripts that kill.
import { PATIENCE, sleep } from '../api/harness.mjs';
import { fieldsOf } from './ledger.mjs';

export const BACK_MS = PATIENCE; // a limit: how long it took is among the figures
export const NAMES = ['engine', 'recorder', 'workers-short', 'workers-stream', 'nginx'];

/** All that the supervisor has started, and what that has. */
export const family = (server) => NAMES.map((n) => server.pid(n)).filter(Boolean).flatMap((p) => [p, ...server.childrenOf(p)]);

/** Milliseconds until a write of the probe (a Writer) is acknowledged again, and until the engine answers; `bad` gets what takes too long. */
export async function backAgain(server, probe, began, bad) {
  let wrote = null, answered = null;
  while (wrote === null || answered === null) {
    if (Date.now() - began > BACK_MS) { bad.push(`not back after ${BACK_MS} ms\n${server.log.slice(-2000)}`); break; }
    const c = probe.own[0], body = { title: `probe ${probe.n++}`, pinned: false, tags: [] };
    c.fields.add(fieldsOf(body));
    try {
      if (wrote === null && (await server.json('PATCH', `/api/conversations/${c.id}`, body)).status === 200) {
        wrote = Date.now() - began;
        c.fields = new Set([fieldsOf(body)]);
      }
      if (answered === null && (await server.chat({ messages: [{ role: 'user', content: 'Hi' }], max_tokens: 1 })).status === 200) answered = Date.now() - began;
    } catch { /* not yet */ }
    await sleep(5);
  }
  return { wrote, answered };
}
