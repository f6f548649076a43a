// Bytes that experts were read from the disk, by three counts: ours at /metrics, the process's in /proc/PID/io, and the block
// device's in /proc/diskstats. The device's has whatever else the machine reads, so it is compared on a quiet machine only: by
// hand. node tests/soak/disk.mjs [--answers N] (40). Environment as in tests/api/harness.mjs.
// Prints JSON; status 1 when the first two differ by over 1 %, or the device gave less than we counted, or over 5 % more.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { demo, program, sleep, start } from '../api/harness.mjs';

const at = process.argv.indexOf('--answers'), ANSWERS = at < 0 ? 40 : Number(process.argv[at + 1]);
const dir = mkdtempSync(path.join(os.tmpdir(), 'slt-disk-')), model = path.join(dir, 'model');
execFileSync(program('sluice'), ['synth', '--out', model, '--shape', 'qwen3-30b-a3b', '--format', 'mxfp4', '--layers', '2', '--vocab', '8192',
  '--context', '2048', '--tokenizer', demo], { stdio: 'ignore' });
const { dev } = statSync(path.join(model, 'config.json'));
const [major, minor] = [Number((BigInt(dev) >> 8n) & 0xfffn), Number((BigInt(dev) & 0xffn) | ((BigInt(dev) >> 12n) & 0xfff00n))];

/** Bytes that the device has read since the machine's start; undefined: the files lie on no block device. */
function device() {
  const fields = readFileSync('/proc/diskstats', 'utf8').split('\n').map((l) => l.trim().split(/\s+/)).find((f) => Number(f[0]) === major && Number(f[1]) === minor);
  return fields && Number(fields[5]) * 512;
}
const server = await start({ model, args: ['--strategy', 'ssd_streaming', '--expert-cache', '64M', '--slots', '4', '--ctx', '2048'] });
const kernel = () => Number(/^read_bytes: (\d+)/m.exec(readFileSync(`/proc/${server.pid('engine')}/io`, 'utf8'))[1]);
const all = async () => ({ ours: await server.metric('expert_read_bytes_total'), process: kernel(), device: device() });

await server.chat({ messages: [{ role: 'user', content: 'What is a river?' }], max_tokens: 8 });
await sleep(500);
const before = await all();
for (let i = 0; i < ANSWERS; i++) await server.chat({ messages: [{ role: 'user', content: `Tell me of number ${i * 7919}.` }], max_tokens: 16, ignore_eos: true });
await sleep(500);
const now = await all();
await server.stop();
rmSync(dir, { recursive: true });
const read = Object.fromEntries(Object.keys(now).map((k) => [k, now[k] - before[k]])); // NaN where there is no device
const beside = { process: read.process / read.ours, device: read.device / read.ours };
console.log(JSON.stringify({ read, beside, device: `${major}:${minor}` }));
const wrong = Math.abs(beside.process - 1) > 0.01 || beside.device < 0.99 || beside.device > 1.05;
process.exit(wrong ? 1 : 0);
