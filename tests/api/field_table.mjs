// The API's fields as the C tables have them: field x endpoint x done or ignored. Run by itself it prints docs/API-fields.md.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const top = join(dirname(fileURLToPath(import.meta.url)), '../..');
const tracked = execFileSync('git', ['-C', top, 'ls-files', '-co', '--exclude-standard', 'fcgi'], { encoding: 'utf8' }).split('\n');
const source = (name) => readFileSync(join(top, tracked.find((f) => f.endsWith(`/${name}`))), 'utf8');

export const ENDPOINTS = {
  chat: ['chat_request.c', 'fields'], completions: ['completions_request.c', 'fields'],
  responses: ['responses_request.c', 'fields'], messages: ['messages_request.c', 'fields'],
  llamacpp: ['llamacpp_request.c', 'fields'],
  'Ollama chat': ['ollama_request.c', 'chat_fields'], 'Ollama generate': ['ollama_request.c', 'generate_fields'],
};

const rowsOf = (text) => [...text.matchAll(/\{[\s\\]*"([\w.]+)",[\s\\]*(FIELD_READ|FIELD_INERT)[\s\\]*\}/g)].map(([, name, kind]) => [name, kind === 'FIELD_READ' ? 'done' : 'ignored']);

/** The macros of rows that several tables share, with those that they name themselves. */
function macros() {
  const header = tracked.filter((f) => /\.h$/.test(f)).map((f) => readFileSync(join(top, f), 'utf8')).join('\n');
  return new Map([...header.matchAll(/#define (FIELD_ROWS_\w+)((?:.*\\\n)*.*)/g)].map(([, name, body]) => [name, body]));
}

function table(file, name) {
  const text = source(file), begin = text.indexOf(`struct field_row ${name}[] = {`);
  const body = text.slice(begin, text.indexOf('\n};', begin)), shared = macros();
  const expand = (part) => new Map([...rowsOf(part), ...[...part.matchAll(/FIELD_ROWS_\w+/g)].flatMap(([m]) => [...expand(shared.get(m) || '')])]);
  return expand(body);
}

export function fieldTable() {
  const own = Object.fromEntries(Object.entries(ENDPOINTS).map(([name, where]) => [name, table(...where)]));
  const foreign = [...source('fields_foreign.c').matchAll(/\{"([\w.]+)", (?:[A-Z_]+|"[^"]*")\}/g)].map((m) => m[1]);
  const names = [...new Set([...Object.values(own).flatMap((t) => [...t.keys()]), ...foreign])].sort();
  return names.map((name) => ({ name, ...Object.fromEntries(Object.keys(ENDPOINTS).map((k) => [k, own[k].get(name) || 'ignored'])) }));
}

export const line = (row) => `| ${row.name} | ${Object.keys(ENDPOINTS).map((k) => row[k]).join(' | ')} |`;
export const documented = () => readFileSync(join(top, 'docs/API-fields.md'), 'utf8').split('\n').filter((l) => /^\| [\w.]+ \| (done|ignored)/.test(l));

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const head = readFileSync(join(top, 'docs/API-fields.md'), 'utf8').split('\n').slice(0, -1);
  const first = head.findIndex((l) => l.startsWith('| --- '));
  console.log([...head.slice(0, first + 1), ...fieldTable().map(line)].join('\n'));
}
