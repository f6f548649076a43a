/** What the lines `export NAME=VALUE` of a page's block set. */
export const exported = (text) => Object.fromEntries(text.split('\n').filter((l) => l.startsWith('export '))
  .map((l) => [l.slice(7, l.indexOf('=')), l.slice(l.indexOf('=') + 1)]));
