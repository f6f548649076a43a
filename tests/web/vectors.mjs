// Texts that try to run script, to load something, or to look like the page: for every place that shows a text of others.

const EVIL = 'https://evil.example';
const RUN = 'window.__pwned=1';

const html = [
  `<script>${RUN}</script>`, `<script src="${EVIL}/x.js"></script>`, `<ScRiPt>${RUN}</sCrIpT>`, `<script>${RUN}`, `<<script>${RUN}//<</script>`,
  `<svg><script>${RUN}</script></svg>`, `<svg/onload=${RUN}>`, `<svg><animate onbegin=${RUN} attributeName=x dur=1s>`,
  `<svg><a xlink:href="javascript:${RUN}"><text y=20>x</text></a></svg>`, `<svg><use href="${EVIL}/x.svg#a"></use></svg>`,
  `<svg><foreignObject><iframe srcdoc="<script>parent.${RUN}</script>"></foreignObject></svg>`,
  `<math><mtext><table><mglyph><style><img src=x onerror=${RUN}>`, `<math href="javascript:${RUN}">x</math>`,
  `<math><mi//xlink:href="javascript:${RUN}">x`, `<form><math><mtext></form><form><mglyph><style></math><img src onerror=${RUN}>`,
  `<noscript><p title="</noscript><img src=x onerror=${RUN}>">`, `<textarea><img title="</textarea><img src=x onerror=${RUN}>">`,
  `<title><img title="</title><img src=x onerror=${RUN}>">`, `<xmp><p title="</xmp><img src=x onerror=${RUN}>">`,
  `<style>@import '${EVIL}/x.css';</style>`, `<style>*{background:url(${EVIL}/x)}</style>`, `<link rel=stylesheet href=${EVIL}/x.css>`,
  `<link rel=prefetch href=${EVIL}/x>`, `<meta http-equiv=refresh content="0;url=${EVIL}">`, `<base href="${EVIL}/">`,
  `<iframe src="${EVIL}"></iframe>`, `<iframe srcdoc="<script>parent.${RUN}</script>"></iframe>`, `<object data="${EVIL}/x.swf"></object>`,
  `<embed src="${EVIL}/x">`, `<video src="${EVIL}/x" autoplay>`, `<video><source onerror=${RUN}>`, `<audio src=x onerror=${RUN}>`,
  `<picture><source srcset="${EVIL}/x">`, `<img src="${EVIL}/x.png">`, `<img srcset="${EVIL}/x.png 1x">`, `<input type=image src="${EVIL}/x">`,
  `<body background="${EVIL}/x">`, `<table background="${EVIL}/x"><td>`, `<form action="${EVIL}"><button>go</button></form>`,
  `<button formaction="javascript:${RUN}">x</button>`, `<a href="javascript:${RUN}">x</a>`, `<a href="${EVIL}" ping="${EVIL}/p">x</a>`,
  `<details open ontoggle=${RUN}>`, `<marquee onstart=${RUN}>`, `<input autofocus onfocus=${RUN}>`, `<select autofocus onfocus=${RUN}>`,
  `<div contenteditable onbeforeinput=${RUN}>`, `<p style="position:fixed;inset:0">over all</p>`, `<dialog open>sign in again</dialog>`,
  `<div id="csrf" name="cookie"></div>`, `<a id=defaultView name=x>`, `<form id=app><input name=hidden>`, `<template><script>${RUN}</script></template>`,
  `--><img src=x onerror=${RUN}><!--`, `<![CDATA[<img src=x onerror=${RUN}>]]>`, `<?xml-stylesheet href="${EVIL}/x.css"?>`, `<!DOCTYPE x SYSTEM "${EVIL}">`,
  `"><img src=x onerror=${RUN}>`, `'><img src=x onerror=${RUN}>`, `" autofocus onfocus=${RUN} x="`, `\`><img src=x onerror=${RUN}>`,
];
const handlers = ['onerror', 'onload', 'onclick', 'onmouseover', 'onfocus', 'onpointerenter', 'onanimationstart', 'ontransitionend', 'onscrollend', 'onwheel']
  .flatMap((on) => [`<img src=x ${on}=${RUN}>`, `<x ${on}=${RUN} tabindex=0 style="animation:pulse 1s">y</x>`]);

const schemes = ['javascript:', 'JaVaScRiPt:', ' javascript:', 'java\tscript:', 'java&#10;script:', '&#106;avascript:', '&#x6A;avascript:', 'javascript&colon;',
  '\u0001javascript:', 'vbscript:', 'data:text/html,', 'data:text/html;base64,', 'data:image/svg+xml,', 'blob:', 'file:///', 'filesystem:',
  'view-source:', 'feed:javascript:', 'jar:javascript:', '//evil.example/', '/\\evil.example/', 'x-javascript:', 'about:blank#', 'intent:', '%6aavascript:']
  .map((scheme) => `${scheme}${RUN}`);
const links = schemes.flatMap((url) => [`[a link](${url})`, `[a link](<${url}>)`, `![a picture](${url})`, `<${url}>`]);

const markdown = [
  `[a][r]\n\n[r]: javascript:${RUN}`, `[a](https://ok.example "x" onmouseover=${RUN})`, `[a](https://ok.example 'x"onmouseover=${RUN}//')`,
  `![x](${EVIL}/x.png)`, `![x](${EVIL}/x.png "t")`, `[![x](${EVIL}/x.png)](${EVIL})`, `![x][p]\n\n[p]: ${EVIL}/x.png`, `![<img src=x onerror=${RUN}>](https://x.example)`,
  `\`\`\`<img src=x onerror=${RUN}>\ncode\n\`\`\``, `\`\`\`js" onload=${RUN}\ncode\n\`\`\``, `~~~html\n<script>${RUN}</script>\n~~~`, `\`<script>${RUN}</script>\``,
  `| a |\n| - |\n| <img src=x onerror=${RUN}> |`, `# <img src=x onerror=${RUN}>`, `- [x] <img src=x onerror=${RUN}>`, `> <svg onload=${RUN}>`,
  `[${'x'.repeat(40)}](https://user:pass@evil.example)`, `https://ok.example/"onmouseover="${RUN}`, `<https://ok.example/?a=<script>>`,
];
const tex = ['\\href{javascript:X}{y}', '\\url{javascript:X}', `\\includegraphics{${EVIL}/x.png}`, '\\htmlClass{sidebar}{x}', '\\htmlId{app}{x}',
  '\\htmlStyle{position:fixed;inset:0}{x}', '\\htmlData{t=page.skip}{x}', '\\text{<img src=x onerror=X>}', '\\unicode{<script>X</script>}',
  '\\def\\a{\\a\\a}\\a', '\\rule{9999em}{9999em}', '\\kern-9999em x', '\\raise9999em{x}', '\\color{url(https://evil.example/x)}{x}', '\\begin{matrix}<svg onload=X>\\end{matrix}',
  '\\style{background:url(https://evil.example)}{x}', '\\cssId{app}{x}', '\\class{app}{x}', '\\require{html}', '\\newcommand{\\x}{<script>X</script>}\\x']
  .flatMap((s) => [`$${s.replaceAll('X', RUN)}$`, `$$\n${s.replaceAll('X', RUN)}\n$$`]);

export const vectors = [...html, ...handlers, ...links, ...markdown, ...tex];
/** For places that hold one line. */
export const lines = vectors.map((v) => v.replace(/[\u0000-\u001f]+/g, ' '));

/** Watches a page: what it asks of other hosts, what its policy stops, what runs. Before the page is opened. */
export async function watch(page, origin) {
  const seen = [];
  page.on('request', (r) => { if (!r.url().startsWith(origin) && !/^(data|blob):/.test(r.url())) seen.push(`asked for ${r.url()}`); });
  page.on('dialog', (d) => { seen.push(`dialog ${d.message()}`); d.dismiss(); });
  page.on('framenavigated', (f) => { if (!f.url().startsWith(origin) && f.url() !== 'about:blank') seen.push(`went to ${f.url()}`); });
  page.on('console', (m) => { if (/Content Security Policy|Refused to/.test(m.text())) seen.push(m.text()); });
  return { seen, async end() { if (await page.evaluate(() => window.__pwned)) seen.push('a script ran'); return seen; } };
}

/** In the page: every element under `selector` that an untrusted text must never have made. */
export function badElements(selector) {
  const out = [];
  for (const n of document.querySelectorAll(`${selector} *`)) {
    const tex = n.closest('.math.drawn');
    if (!tex && /^(script|img|svg|iframe|style|math|object|embed|link|meta|base|form|input|video|audio|dialog|details|template)$/i.test(n.localName)) out.push(n.outerHTML.slice(0, 200));
    if (tex && /^(script|img|iframe|style|a|object|embed|form|input)$/i.test(n.localName)) out.push(n.outerHTML.slice(0, 200));
    for (const a of n.attributes) {
      if (/^on/i.test(a.name) || /^\s*(javascript|data|vbscript|blob|file):/i.test(a.value)) out.push(`${n.localName} ${a.name}=${a.value}`.slice(0, 200));
      if (a.name === 'href' && !/^(https?:\/\/|mailto:)/i.test(a.value)) out.push(`href ${a.value}`.slice(0, 200));
      if (a.name === 'id') out.push(`id ${a.value}`);
    }
    if (n.localName === 'a' && (n.target !== '_blank' || !/noopener/.test(n.rel) || !/noreferrer/.test(n.rel))) out.push(n.outerHTML.slice(0, 200));
  }
  return out;
}
