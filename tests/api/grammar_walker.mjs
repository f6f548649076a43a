// tests/unit/grammar_walk as a child: one JSON question a line, one answer. GRAMMAR_TOKENIZER: another model's folder.
import { spawn } from 'node:child_process';
import readline from 'node:readline';
import { demo, program } from './harness.mjs';

export function openWalker() {
  const child = spawn(program('grammar_walk'), [process.env.GRAMMAR_TOKENIZER ?? demo], { stdio: ['pipe', 'pipe', 'inherit'] });
  const waiting = [];
  readline.createInterface({ input: child.stdout }).on('line', (l) => waiting.shift()(JSON.parse(l)));
  child.on('exit', (code) => { for (const w of waiting.splice(0)) w({ error: `grammar_walk ended with ${code}` }); });
  return {
    ask: (line) => new Promise((done) => { waiting.push(done); child.stdin.write(`${JSON.stringify(line)}\n`); }),
    close: () => child.kill(),
  };
}
