// What the page's Markdown has beyond markdown-it's: formulas ($, $$, \( and \[), task lists, footnotes; links that are safe, and
// pictures that are only links, because an answer never loads anything.

import { check, isOver, Overdue, within } from "./budget.js";
import { t } from "./i18n.js";

const SAFE_LINK = /^(?:https?:\/\/|mailto:)/i;
const BLOCK_MS = 300; // for one paragraph, heading or cell
const LONGEST_BLOCK = 32768; // characters of one that is parsed: what markdown-it does in one piece stays short
const LONGEST_LINE = 8192; // characters of one line that is searched for addresses

/** $x$ as in TeX, but "$5 and $6" is money: no space inside the signs, no digit behind the second one. */
function inlineMath(state, silent) {
  const { src, pos } = state;
  let open = src[pos] === "$" ? (src[pos + 1] === "$" ? "$$" : "$") : src.startsWith("\\(", pos) ? "\\(" : src.startsWith("\\[", pos) ? "\\[" : "";
  if (!open) return false;
  const close = { $: "$", $$: "$$", "\\(": "\\)", "\\[": "\\]" }[open];
  if (state.unclosed?.has(close)) return false;
  const start = pos + open.length;
  let end = src.indexOf(close, start);
  if (end < 0) (state.unclosed ??= new Set()).add(close); // nor will the next one find it: a model that repeats itself writes thousands
  while (end > 0 && open[0] === "$" && src[end - 1] === "\\") end = src.indexOf(close, end + 1);
  if (end <= start || end > state.posMax) return false;
  const tex = src.slice(start, end);
  if (!tex.trim() || (open === "$" && (/^\s|\s$/.test(tex) || /\d/.test(src[end + 1] || "")))) return false;
  if (!silent) state.push("math_inline", "span", 0).content = tex;
  state.pos = end + close.length;
  return true;
}

/** $$ or \[ at the start of a line, over lines. An unclosed one counts only while the answer streams. */
function blockMath(state, startLine, endLine, silent) {
  const begin = state.bMarks[startLine] + state.tShift[startLine];
  if (state.sCount[startLine] - state.blkIndent >= 4) return false;
  const open = state.src.slice(begin, begin + 2);
  const close = { $$: "$$", "\\[": "\\]" }[open];
  if (!close) return false;
  const lines = [];
  let line = startLine;
  let rest = "";
  let closed = false;
  for (; line < endLine; line++) {
    if (line > startLine && state.sCount[line] < state.blkIndent) break;
    const text = state.src.slice(line === startLine ? begin + 2 : state.bMarks[line] + state.tShift[line], state.eMarks[line]);
    const at = text.indexOf(close);
    lines.push(at < 0 ? text : text.slice(0, at));
    if (at >= 0) { closed = true; rest = text.slice(at + 2); break; }
  }
  if (rest.trim() || (!closed && !state.env.streaming)) return false; // a sentence continues after it: inline
  if (silent) return true;
  const token = state.push("math_block", "div", 0);
  token.content = lines.join("\n").trim();
  token.meta = { closed };
  token.map = [startLine, line + (closed ? 1 : 0)];
  token.block = true;
  state.line = Math.min(line + 1, endLine);
  return true;
}

const NOTE = /^\[\^([^\]\s]{1,40})\]:[ \t]+(\S.*)$/;

/** "[^1]: text" at a line's start, with the lines up to an empty one. It begins with its own sign, which leads back. */
function footnote(state, startLine, endLine, silent) {
  const lineAt = (i) => state.src.slice(state.bMarks[i] + state.tShift[i], state.eMarks[i]);
  if (state.sCount[startLine] - state.blkIndent >= 4 || !NOTE.test(lineAt(startLine))) return false;
  if (silent) return true;
  const [, label, first] = NOTE.exec(lineAt(startLine));
  const lines = [first];
  let line = startLine + 1;
  while (line < endLine && !state.isEmpty(line) && state.sCount[line] >= state.blkIndent && !NOTE.test(lineAt(line))) lines.push(lineAt(line++).trim());
  const open = state.push("footnote_open", "div", 1);
  open.meta = { footnote: true };
  open.map = [startLine, line];
  state.push("paragraph_open", "p", 1).map = [startLine, line];
  const inline = state.push("inline", "", 0);
  inline.content = `[^${label}] ${lines.join("\n")}`;
  inline.map = [startLine, line];
  inline.children = [];
  state.push("paragraph_close", "p", -1);
  state.push("footnote_close", "div", -1);
  state.line = line;
  return true;
}

/** "[^1]": the sign of a footnote. */
function footnoteSign(state, silent) {
  if (!state.src.startsWith("[^", state.pos)) return false;
  const label = /^\[\^([^\]\s]{1,40})\](?!\()/.exec(state.src.slice(state.pos, state.pos + 44))?.[1];
  if (!label) return false;
  if (!silent) state.push("footnote_sign", "span", 0).content = label;
  state.pos += label.length + 3;
  return true;
}

/** "[ ] " and "[x] " at the start of a list item. */
function tasks(state) {
  const { tokens } = state;
  for (let i = 2; i < tokens.length; i++) {
    if (tokens[i].type !== "inline" || tokens[i - 1].type !== "paragraph_open" || tokens[i - 2].type !== "list_item_open") continue;
    const first = tokens[i].children[0];
    const mark = first?.type === "text" && /^\[([ xX])\]\s+/.exec(first.content);
    if (!mark) continue;
    first.content = first.content.slice(mark[0].length);
    const task = new state.Token("task", "span", 0);
    task.meta = { done: mark[1] !== " " };
    tokens[i].children.unshift(task);
    tokens[i - 2].meta = { task: true };
  }
}

/** markdown-it's own rule of this name, but a block that takes too long is shown as it was written. */
function inlineWithin(state) {
  for (const token of state.tokens) {
    if (token.type !== "inline") continue;
    check();
    try {
      if (token.content.length > LONGEST_BLOCK) throw new Overdue();
      within(BLOCK_MS, () => state.md.inline.parse(token.content, state.md, state.env, token.children));
    } catch (error) {
      if (!(error instanceof Overdue)) throw error;
      const text = new state.Token("plain", "span", 0);
      text.content = token.content;
      token.children = [text];
    }
  }
}

/** markdown-it asks its rules one by one, these first; the parser continues after them, or ends by what they throw. */
function useBudget(parser) {
  const goOn = () => { check(); return false; };
  parser.block.ruler.before("table", "budget", goOn, { alt: ["paragraph", "reference", "blockquote", "list"] });
  parser.inline.ruler.before("text", "budget", goOn);
  parser.core.ruler.at("inline", inlineWithin);
  const { linkify } = parser;
  const [test, match, matchAtStart] = [linkify.test, linkify.match, linkify.matchAtStart].map((f) => f.bind(linkify));
  linkify.test = (text) => !isOver() && (text.length > LONGEST_LINE || test(text));
  linkify.match = (text) => (isOver() || text.length > LONGEST_LINE ? [] : match(text) ?? []);
  linkify.matchAtStart = (text) => matchAtStart(text.slice(0, LONGEST_LINE));
}

export function useRules(parser) {
  const { escapeHtml } = parser.utils;
  parser.validateLink = (url) => SAFE_LINK.test(url.trim());
  parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false }); // main.py is a file, not a host in Paraguay
  parser.inline.ruler.before("escape", "math", inlineMath);
  parser.block.ruler.before("fence", "math", blockMath, { alt: ["paragraph", "reference", "blockquote", "list"] });
  parser.block.ruler.before("reference", "footnote", footnote, { alt: ["paragraph", "reference"] });
  parser.inline.ruler.before("link", "footnote", footnoteSign);
  parser.core.ruler.after("inline", "tasks", tasks);
  useBudget(parser);
  parser.renderer.rules.plain = (tokens, i) => `<span class="plain">${escapeHtml(tokens[i].content)}</span>`;
  parser.renderer.rules.math_inline = (tokens, i) => `<span class="math">${escapeHtml(tokens[i].content)}</span>`;
  parser.renderer.rules.footnote_sign = (tokens, i) => `<span class="footnote-ref">${escapeHtml(tokens[i].content)}</span>`;
  parser.renderer.rules.task = (tokens, i) => `<span class="task${tokens[i].meta.done ? " done" : ""}"></span>`;
  parser.renderer.rules.image = (tokens, i) => {
    const url = tokens[i].attrGet("src") || "";
    const text = tokens[i].content || t("code.image");
    return SAFE_LINK.test(url) ? `<a href="${escapeHtml(url)}">${escapeHtml(text)}</a>` : escapeHtml(text);
  };
}
