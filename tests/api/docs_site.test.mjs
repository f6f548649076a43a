// The documents as nginx serves them: every one is there, every link leads somewhere, and nothing of it needs a script.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { start, top } from './harness.mjs';

let s;
const documents = execFileSync('git', ['-C', top, 'ls-files', '-co', '--exclude-standard', 'README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'docs/*.md'], { encoding: 'utf8' }).split('\n').filter(Boolean);
const placeOf = (f) => `/docs/${f.replace(/^docs\//, '')}`;
const htmlOf = (f) => placeOf(f).replace(/README\.md$/, '').replace(/\.md$/, '.html');
const cache = new Map();
async function get(path) {
  if (!cache.has(path)) {
    const r = await fetch(s.url + path);
    cache.set(path, { status: r.status, type: r.headers.get('content-type'), policy: r.headers.get('content-security-policy'), text: await r.text() });
  }
  return cache.get(path);
}
before(async () => { s = await start({ fake: true }); });
after(() => s?.stop());

test('each document is a page and Markdown, without a login', async () => {
  assert.ok(documents.length > 40);
  for (const f of documents) {
    const page = await get(htmlOf(f)), plain = await get(placeOf(f));
    assert.equal(page.status, 200, htmlOf(f));
    assert.equal(page.type, 'text/html; charset=utf-8');
    assert.match(page.policy, /default-src 'self'/);
    assert.match(page.text, /<h1 id="[^"]+">/, f);
    assert.doesNotMatch(page.text, /<script|<[^>]*\s(style|on[a-z]+)=|=.javascript:/i, f);
    assert.equal(plain.status, 200, placeOf(f));
    assert.equal(plain.type, 'text/markdown; charset=utf-8');
  }
});

test('every link leads to a page, and to an anchor that is there', async () => {
  const bad = [];
  for (const f of documents) {
    const from = htmlOf(f), { text } = await get(from);
    for (const [, href] of text.matchAll(/(?:href|src)="([^"]*)"/g)) {
      if (/^(https?|mailto):/.test(href)) continue;
      const to = new URL(href.replaceAll('&amp;', '&'), s.url + from), page = await get(to.pathname);
      if (page.status !== 200) bad.push(`${f}: ${href} is ${page.status}`);
      else if (to.hash && !page.text.includes(`id="${decodeURIComponent(to.hash.slice(1))}"`)) bad.push(`${f}: ${href} has no such anchor`);
    }
    const plain = await get(placeOf(f));
    for (const [, href] of plain.text.replace(/```[^]*?```|`[^`\n]*`/g, '').matchAll(/\]\(([^)\s#]+\.md)(?:#[^)]*)?\)/g)) {
      if (/^https?:/.test(href)) continue;
      const to = new URL(href, s.url + placeOf(f));
      if ((await get(to.pathname)).status !== 200) bad.push(`${f} as Markdown: ${href}`);
    }
  }
  assert.deepEqual(bad, []);
});

test('llms.txt names every page, and where the API is described', async () => {
  const r = await get('/llms.txt');
  assert.equal(r.status, 200);
  assert.equal(r.type, 'text/plain; charset=utf-8');
  assert.match(r.text, /^# Sluice\n\n> /);
  const named = [...r.text.matchAll(/^- \[[^\]]+\]\((\/docs\/[^)]+)\): ?/gm)].map((m) => m[1]);
  assert.deepEqual(named.toSorted(), documents.map(placeOf).toSorted());
  assert.ok(r.text.includes('/openapi.json'));
  assert.equal((await (await fetch(`${s.url}/openapi.json`, { headers: { authorization: `Bearer ${s.key}` } })).json()).openapi.split('.')[0], '3');
});

test('/docs leads to the first page, and what is not there is a 404', async () => {
  const r = await fetch(`${s.url}/docs`, { redirect: 'manual' });
  assert.deepEqual([r.status, r.headers.get('location')], [301, '/docs/']);
  assert.equal((await get('/docs/nothing.html')).status, 404);
  assert.equal((await get('/docs/../index.html')).status, 200, 'a path above it is another page of the server, not a hole');
  assert.equal((await get('/docs/site.css')).type, 'text/css; charset=utf-8');
});
