// What stands in a server's state folder, whoever wrote it there: for tests of what must be gone.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { sleep, slow } from './harness.mjs';

/** Files below a folder, relative to it. By hand: Node 18's own recursion takes a socket for a folder. */
function filesBelow(folder, below = '') {
  let entries;
  try { entries = readdirSync(path.join(folder, below), { withFileTypes: true }); } catch { return []; } // gone meanwhile
  return entries.flatMap((d) => (d.isDirectory() ? filesBelow(folder, path.join(below, d.name)) : d.isFile() ? [path.join(below, d.name)] : []));
}

/** "TEXT in FILE" for each file that holds one of the texts; each is read once, and one that goes meanwhile holds nothing. */
export function holding(server, texts) {
  const folder = path.join(server.dir, 'state'), found = [];
  for (const name of filesBelow(folder)) {
    let bytes;
    try { bytes = readFileSync(path.join(folder, name)); } catch { continue; } // gone
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
