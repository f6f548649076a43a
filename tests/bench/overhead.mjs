// What a chat request costs in the worker, without the engine's time, by its own log: node tests/bench/overhead.mjs [--requests N].
// By hand, on a quiet machine; environment as in tests/api/harness.mjs. Wanted: a median under 2 ms.
import { order, sleep, start } from '../api/harness.mjs';
import { leaveCleanly } from '../soak/leave.mjs';

const at = process.argv.indexOf('--requests'), requests = at < 0 ? 300 : Number(process.argv[at + 1]);
const s = await start({ fake: true });
leaveCleanly(() => s.stop());
const ask = () => s.chat({ messages: [{ role: 'system', content: 'Be brief.' }, ...order({ text: 'a b c d e f g h' })] });
const overheads = (from) => [...s.log.slice(from).matchAll(/route=\/v1\/chat\/completions .*overhead_ms=([0-9.]+)/g)].map((m) => Number(m[1]));

for (let i = 0; i < 20; i++) await ask();
while (overheads(0).length < 20) await sleep(20);
const from = s.log.length;
for (let i = 0; i < requests; i++) await ask();
while (overheads(from).length < requests) await sleep(20);
const ms = overheads(from).sort((a, b) => a - b);
console.log(`${requests} requests: median ${ms[requests >> 1]} ms, 90th ${ms[Math.floor(requests * 0.9)]} ms, worst ${ms.at(-1)} ms`);
await s.stop();
