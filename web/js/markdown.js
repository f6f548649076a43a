// Markdown to safe DOM. markdown-it parses (raw HTML off), DOMPurify checks what it made of the inline parts, blocks.js
// puts the blocks into the page. While an answer streams only its last block is parsed again, and only what changed in
// it is drawn: finished blocks stay untouched.

import { settle, sync } from "./blocks.js";
import { check, isOver, Overdue, within } from "./budget.js";
import { loadCleaner } from "./clean.js";
import { loadMath, mathSettled } from "./math.js";
import { useRules } from "./markdown-rules.js";

const WHOLE_MS = 1000; // for a whole text: parsing and drawing; what is left of it then is shown as it was written
const STREAM_MS = 150; // for what has grown while an answer streams
const MOST_BLOCKS = 20000; // of one text, cells included: laying them out is the browser's work, which asks no clock
const REST = 4; // times as long as the last drawing took, until the next one
const CHEAP_MS = 30; // a drawing that takes less needs no rest
const AGAIN_MS = 2000; // until libraries that did not come are asked for again

let parser = null;
let loading = null;
let retry = 0;
const late = new Set(); // views that show a text as it is until the libraries are here

function drawLate() {
  if (!parser && late.size) retry ||= setTimeout(() => { retry = 0; loadMarkdown(); }, AGAIN_MS);
  if (parser) for (const view of late) if (view.live) view.append(""); else view.finish();
}

/** Loads the libraries once; until then, and without them, text is shown as it is. */
export function loadMarkdown() {
  loading ??= Promise.all([import("../vendor/markdown-it.min.js"), loadCleaner()]).then(() => {
    parser = globalThis.markdownit({ html: false, linkify: true, breaks: false, typographer: false });
    useRules(parser);
  }).catch(() => { loading = null; }).then(drawLate);
  return loading;
}

const TAGS = { bullet_list_open: "ul", ordered_list_open: "ol", list_item_open: "li", blockquote_open: "blockquote",
  table_open: "table", thead_open: "thead", tbody_open: "tbody", tr_open: "tr", footnote_open: "div" };

function attributes(token) {
  const out = {};
  if (token.attrGet("start")) out.start = token.attrGet("start");
  const align = /text-align:(\w+)/.exec(token.attrGet("style") || "")?.[1];
  if (token.meta?.task) out.class = "task-item";
  if (token.meta?.footnote) out.class = "footnote";
  if (align) out.class = `align-${align}`;
  return out;
}

/** Tokens to a tree of {kind, tag, attrs, html | children | text, key}; equal keys mean equal looks. */
function blocksOf(tokens, from, to, env) {
  const blocks = [];
  for (let i = from; i < to;) {
    check();
    if (env.blocks++ > MOST_BLOCKS) throw new Overdue();
    const token = tokens[i];
    let end = i + 1;
    if (token.nesting === 1) while (tokens[end++].level !== token.level);
    let block = null;
    if (token.type in TAGS) {
      const children = blocksOf(tokens, i + 1, end - 1, env);
      block = { kind: "box", tag: TAGS[token.type], attrs: attributes(token), children, html: children.map((c) => c.key).join("\n") };
    } else if (token.type === "fence" || token.type === "code_block") {
      block = { kind: "code", tag: "pre", attrs: {}, info: token.info.trim().split(/\s/)[0].slice(0, 30), html: token.content };
      block.attrs.info = block.info;
    } else if (token.type === "math_block") {
      block = { kind: "math", tag: "math", attrs: { open: !token.meta.closed }, html: token.content };
    } else if (token.type === "hr") {
      block = { kind: "text", tag: "hr", attrs: {}, html: "" };
    } else if (token.nesting === 1) { // paragraph, heading, cell: one inline token within
      block = { kind: "text", tag: token.hidden ? "div" : token.tag, attrs: token.hidden ? { class: "tight" } : attributes(token),
        html: parser.renderer.render(tokens.slice(i + 1, end - 1), parser.options, env) };
    }
    if (block) {
      if (token.level === 0) block.source = () => (env.lines ??= env.text.split(/\r\n?|\n/)).slice(...token.map).join("\n");
      block.key = `<${block.tag} ${Object.entries(block.attrs).join(" ")}>${block.html}`;
      blocks.push(block);
    }
    i = end;
  }
  return blocks;
}

function parse(text, streaming) {
  try {
    return parseAll(text, streaming);
  } catch (error) {
    if (!(error instanceof Overdue)) throw error;
    return { blocks: [{ kind: "plain", key: text, source: () => text }], lastAt: 0 };
  }
}

function parseAll(text, streaming) {
  const env = { streaming, text, blocks: 0 };
  const tokens = parser.parse(text, env);
  let line = 0;
  for (const token of tokens) if (token.level === 0 && token.map && token.nesting >= 0) line = token.map[0];
  let at = 0; // where the last top-level block begins
  for (let i = 0; i < line; i++) at = text.indexOf("\n", at) + 1;
  return { blocks: blocksOf(tokens, 0, tokens.length, env), lastAt: at };
}

/** One growing Markdown text inside `root`. */
export class MarkdownView {
  constructor(root) {
    this.root = root;
    this.forget();
  }

  forget() {
    this.text = "";
    this.stable = 0; // characters before it are drawn for good
    this.settled = 0; // so are that many blocks
    this.shown = [];
    this.plain = false; // shown without the libraries
    late.delete(this);
    clearTimeout(this.again);
    clearTimeout(this.waiting);
    this.waiting = 0;
    this.restsUntil = 0;
    this.root.replaceChildren();
  }

  append(text) {
    const whole = this.text + text;
    if (this.plain && parser) this.forget();
    this.text = whole;
    this.live = true;
    if (!parser) { this.drawPlain(); return; }
    if (!mathSettled() && /\$\S|\\[([]/.test(this.text.slice(this.stable))) { // what is shown must not move when KaTeX comes
      loadMath().then(() => { if (this.live && this.text === whole) this.append(""); });
      return;
    }
    const begun = performance.now();
    if (begun < this.restsUntil) {
      this.waiting ||= setTimeout(() => { this.waiting = 0; if (this.live) this.append(""); }, this.restsUntil - begun);
      return;
    }
    within(STREAM_MS, () => this.drawGrowth());
    const took = performance.now() - begun;
    this.restsUntil = took > CHEAP_MS ? begun + (1 + REST) * took : 0;
    this.moveCursor();
  }

  drawGrowth() {
    const { blocks, lastAt } = parse(this.text.slice(this.stable), true);
    const done = this.shown.slice(0, this.settled);
    this.shown = done.concat(sync(this.root, this.shown.slice(this.settled), blocks, done.at(-1)?.element));
    if (lastAt > 0) {
      this.stable += lastAt;
      this.settled = this.shown.length - 1;
      settle(this.shown.slice(done.length, this.settled));
    }
  }

  /** A new element each time: one that moved would count as a jump of the layout, and would blink while it runs. */
  moveCursor() {
    this.cursor?.remove();
    let last = this.shown.at(-1);
    while (last?.children.length) last = last.children.at(-1);
    if (last?.kind !== "text" || last.tag === "hr") return;
    this.cursor = document.createElement("span");
    this.cursor.className = "cursor";
    last.element.append(this.cursor);
  }

  /** The whole text at its end, parsed in one piece (a link may be defined below its use); what looks the same stays. What was overdue is
   *  tried once more after a rest: it may have been another program that had the processor. */
  finish(text = this.text, last = false) {
    clearTimeout(this.again);
    if (!text || this.plain || !text.startsWith(this.text)) this.forget();
    this.text = text;
    this.live = false;
    this.cursor?.remove();
    if (!text) return;
    if (!parser) { this.drawPlain(); return; }
    const overdue = within(WHOLE_MS, () => {
      this.shown = sync(this.root, this.shown, parse(text, false).blocks);
      return isOver();
    });
    if (overdue && !last) this.again = setTimeout(() => { if (this.root.isConnected && !this.live) this.finish(this.text, true); }, REST * WHOLE_MS);
    this.stable = 0;
    this.settled = 0;
    settle(this.shown);
  }

  drawPlain() {
    const p = document.createElement("p");
    p.className = "plain";
    p.textContent = this.text;
    this.root.replaceChildren(p);
    this.plain = true;
    late.add(this);
    if (!retry) loadMarkdown();
  }
}
