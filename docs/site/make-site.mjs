// The documents as a site of plain HTML, which nginx serves at /docs: a page for each Markdown file, the Markdown itself beside it for programs,
// and llms.txt, which names every page. Run by make: node docs/site/make-site.mjs SOURCE OUT MARKDOWN-IT FILE...
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';

const [, , source, out, library, ...files] = process.argv;
const read = (f) => readFileSync(path.join(source, f), 'utf8');
const module = { exports: {} };
vm.runInThisContext(`(function (module, exports) { ${readFileSync(library, 'utf8')}\n})`)(module, module.exports);
const markdown = module.exports({ html: false, linkify: false });

/** docs/API.md is API.md on the site, docs/clients/README.md clients/index.html; README.md is the first page. */
const placeOf = (f) => f.replace(/^docs\//, '');
const htmlOf = (f) => placeOf(f).replace(/(^|\/)README\.md$/, '$1index.html').replace(/\.md$/, '.html');
const known = new Set(files);

/** As GitHub names the anchors of headings. */
const slug = (text) => text.trim().toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, '').replace(/\s/g, '-');

/** Where a link of a page leads on the site: to a page, a picture, or nowhere (what is only in the repository). */
function leads(from, href, html) {
  if (/^[a-z]+:/i.test(href) || href.startsWith('#')) return href;
  const [file, anchor] = href.split('#'), to = path.posix.normalize(path.posix.join(path.posix.dirname(from), file));
  if (!known.has(to) && !pictures.has(to)) return null;
  const base = path.posix.dirname(html ? htmlOf(from) : placeOf(from)), target = known.has(to) ? (html ? htmlOf(to) : placeOf(to)) : placeOf(to);
  return (path.posix.relative(base, target) || path.posix.basename(target)) + (anchor ? `#${anchor}` : '');
}

const pictures = new Set();
for (const f of files) {
  for (const [, href] of read(f).matchAll(/(?:\]\(|src=")([^)"#\s]+\.(?:png|svg|jpg))/g)) {
    if (!/^[a-z]+:/i.test(href)) pictures.add(path.posix.normalize(path.posix.join(path.posix.dirname(f), href)));
  }
}

/** The page's elements, with anchors at headings and links that lead within the site. */
function render(f) {
  const tokens = markdown.parse(read(f), {}), seen = new Map();
  let title = '';
  tokens.forEach((t, i) => {
    if (t.type === 'heading_open') {
      const text = tokens[i + 1].children.filter((c) => /text|code_inline/.test(c.type)).map((c) => c.content).join('');
      const id = slug(text), n = seen.get(id) ?? 0;
      seen.set(id, n + 1);
      t.attrSet('id', n ? `${id}-${n}` : id);
      if (t.tag === 'h1' && !title) title = text;
    }
    for (const c of t.children ?? []) {
      if (c.type === 'link_open') {
        const to = leads(f, c.attrGet('href'), true);
        if (to === null) c.attrs = [];
        else c.attrSet('href', to);
      }
      if (c.type === 'image') c.attrSet('src', leads(f, c.attrGet('src'), true));
      if (c.type === 'text' && /<\/?\w+/.test(c.content)) c.content = c.content.replace(/<img[^>]*alt="([^"]*)"[^>]*>/g, '').replace(/<\/?p>/g, '');
    }
  });
  return { title: title || placeOf(f), body: markdown.renderer.render(tokens, markdown.options, {}) };
}

/** The first sentences below the title, without marks: what llms.txt says of the page. */
function about(f) {
  const paragraph = read(f).split(/\n\s*\n/).find((p) => /^(?:[A-Z"]|\*\*)/.test(p) && !p.startsWith('```')) ?? '';
  const plain = paragraph.replace(/\s+/g, ' ').replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/[*`]/g, '');
  return plain.length > 160 ? `${plain.slice(0, 157).replace(/\s\S*$/, '')} ...` : plain;
}

const GROUPS = [['Start', /^(README|docs\/OPERATIONS|docs\/operations\/install|docs\/coming-from\/)/], ['Use', /^docs\/(API|examples\/|clients\/|CLIENTS|MODELS)/],
  ['Run', /^(docs\/operations\/|docs\/security\/|SECURITY)/], ['How it works', /./]];
const pages = files.map((f) => ({ f, place: placeOf(f), html: htmlOf(f), about: about(f), ...render(f) }));
const groupOf = (f) => GROUPS.find(([, re]) => re.test(f))[0];
const escape = (text) => text.replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);

function page(p) {
  const to = (html) => path.posix.relative(path.posix.dirname(p.html), html) || path.posix.basename(html);
  const list = GROUPS.map(([name]) => `<h2>${name}</h2>\n<ul>\n${pages.filter((q) => groupOf(q.f) === name)
    .map((q) => `<li><a href="${to(q.html)}"${q === p ? ' aria-current="page"' : ''}>${escape(q.title)}</a></li>`).join('\n')}\n</ul>`).join('\n');
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(p.title)} · Sluice</title>
<link rel="stylesheet" href="${to('site.css')}">
<link rel="alternate" type="text/markdown" href="${to(p.place)}">
</head>
<body>
<a class="skip" href="#text">To the text</a>
<nav aria-label="Documents">
${list}
</nav>
<main id="text">
${p.body}</main>
</body>
</html>
`;
}

const write = (name, text) => {
  mkdirSync(path.dirname(path.join(out, name)), { recursive: true });
  writeFileSync(path.join(out, name), text);
};
rmSync(out, { recursive: true, force: true });
for (const p of pages) {
  write(p.html, page(p));
  write(p.place, read(p.f).replace(/\]\(([^)\s]+)\)/g, (all, href) => { const to = leads(p.f, href, false); return to === null ? all : `](${to})`; }));
}
for (const f of pictures) {
  mkdirSync(path.dirname(path.join(out, placeOf(f))), { recursive: true });
  copyFileSync(path.join(source, f), path.join(out, placeOf(f)));
}
copyFileSync(path.join(source, 'docs/site/site.css'), path.join(out, 'site.css'));
write('llms.txt', `# Sluice

> Your own chat and your own OpenAI-compatible API on one Linux box: mixture-of-experts models on the GPU through Vulkan, or on the CPU. The server that you read this from describes its API at /openapi.json (OpenAPI 3.1).

${GROUPS.map(([name]) => `## ${name}\n\n${pages.filter((p) => groupOf(p.f) === name).map((p) => `- [${p.title}](/docs/${p.place}): ${p.about}`).join('\n')}\n`).join('\n')}`);
