// tests/unit/grammar_walk as a child: one JSON question a line, one answer. GRAMMAR_TOKENIZER: another model's folder.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';
import { demo, top } from './harness.mjs';

const prefix = process.env.SLUICE_PREFIX ?? path.join(top, 'build/root');
const places = [process.env.SLUICE_BIN, path.join(prefix, '..', prefix.endsWith('asan-root') ? 'asan' : 'release', 'tests/unit')];
const program = places.filter(Boolean).map((p) => path.join(p, 'grammar_walk')).find(existsSync);

export function openWalker() {
  if (!program) throw new Error(`grammar_walk is in none of ${places}`);
  const child = spawn(program, [process.env.GRAMMAR_TOKENIZER ?? demo], { stdio: ['pipe', 'pipe', 'inherit'] });
  const waiting = [];
  readline.createInterface({ input: child.stdout }).on('line', (l) => waiting.shift()(JSON.parse(l)));
  child.on('exit', (code) => { for (const w of waiting.splice(0)) w({ error: `grammar_walk ended with ${code}` }); });
  return {
    ask: (line) => new Promise((done) => { waiting.push(done); child.stdin.write(`${JSON.stringify(line)}\n`); }),
    close: () => child.kill(),
  };
}
