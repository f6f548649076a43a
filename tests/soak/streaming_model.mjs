// What the measurements of streamed experts share: a random model, how much of it fits, a server over it, things to ask.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { demo, program, start } from '../api/harness.mjs';

export const option = (name, otherwise) => {
  const i = process.argv.indexOf(`--${name}`);
  return i < 0 ? otherwise : process.argv[i + 1];
};
export const number = (name, otherwise) => Number(option(name, otherwise));
export const load = () => `load ${os.loadavg()[0].toFixed(1)} of ${os.cpus().length} cores`;
export const quantile = (list, q) => [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * q))] ?? NaN;
export const sum = (list) => list.reduce((a, b) => a + b, 0);
export const mean = (list) => (list.length ? sum(list) / list.length : NaN);

/** --model DIR, or a random Qwen3-30B-A3B of --layers layers made in --dir (or the folder for temporary files). */
export function model(layers) {
  const given = option('model');
  if (given) return { dir: given, remove() {} };
  const folder = mkdtempSync(path.join(option('dir', os.tmpdir()), 'sluice-streamed-'));
  const dir = path.join(folder, 'model');
  execFileSync(program('sluice'), ['synth', '--out', dir, '--shape', 'qwen3-30b-a3b', '--format', 'mxfp4-q8', '--layers', String(number('layers', layers)),
    '--vocab', '8192', '--context', '8192', '--tokenizer', demo], { stdio: 'ignore' });
  return { dir, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

export function info(dir, args = []) {
  return JSON.parse(execFileSync(program('sluice'), ['info', dir, '--backend', 'cpu', '--json', ...args],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }));
}

/** Options by which a share of the experts fits in memory, as a cache or as a budget of the whole engine. */
export function streaming(dir, share, more = []) {
  const args = ['--strategy', 'ssd_streaming', '--ctx', '4096', ...more];
  const all = info(dir, args).expert_bytes;
  const cache = Math.round(all * share);
  const { plan } = info(dir, [...args, '--expert-cache', String(cache)]);
  return { args, all, cache, ram: plan.host_bytes + (96 << 20) };
}

export const open = (dir, args) => start({ model: dir, args: [...args, '--log-level', 'info'] });

const words = 'river stone lamp winter garden number letter bridge story apple engine window paper quiet morning sea hill'.split(' ');
/** A question of about n tokens; another seed, another question. */
export function question(n, seed) {
  let x = seed * 2654435761 % 4294967296;
  const next = () => { x = (x * 1664525 + 1013904223) % 4294967296; return x / 4294967296; };
  return Array.from({ length: Math.max(1, Math.round(n / 2)) }, () => `${words[Math.floor(next() * words.length)]} ${Math.floor(next() * 10)}`).join(' ');
}

/** Figures of /metrics by name; those with labels by name{labels}. */
export async function figures(server) {
  const text = await server.metrics();
  return Object.fromEntries(text.split('\n').filter((l) => l.startsWith('sluice_')).map((l) => {
    const at = l.lastIndexOf(' ');
    return [l.slice(7, at), Number(l.slice(at + 1))];
  }));
}
