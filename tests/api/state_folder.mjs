// What stands in a server's state folder, whoever wrote it there: for tests of what must be gone.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { eventually } from './harness.mjs';

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
export const cleared = (server, texts) => eventually(() => assert.deepEqual(holding(server, texts), []), 100);
