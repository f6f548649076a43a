// What stands in a server's state folder, whoever wrote it there: for tests of what must be gone.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { sleep, slow } from './harness.mjs';

/** "TEXT in FILE" for each file that holds one of the texts; each is read once, and one that goes meanwhile holds nothing. */
export function holding(server, texts) {
  const folder = path.join(server.dir, 'state'), found = [];
  for (const name of readdirSync(folder, { recursive: true })) {
    let bytes;
    try { bytes = readFileSync(path.join(folder, name)); } catch { continue; } // gone, a folder, a socket
    found.push(...texts.filter((t) => bytes.includes(t)).map((t) => `${t} in ${name}`));
  }
  return found;
}

/** Until the recorder has cleared the texts away. */
export async function cleared(server, texts, ms = 20000) {
  for (const end = Date.now() + ms * slow; ; await sleep(100)) {
    const left = holding(server, texts);
    if (!left.length) return;
    assert.ok(Date.now() < end, left.join(', '));
  }
}
