// What the page's Markdown has beyond markdown-it's: formulas ($, $$, \( and \[), task lists; links that are safe, and
// pictures that are only links, because an answer never loads anything.

import { t } from "./i18n.js";

const SAFE_LINK = /^(?:https?:\/\/|mailto:)/i;

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
  if (rest.trim() || (!closed && !state.env.streaming)) return false; // a sentence goes on behind it: inline
  if (silent) return true;
  const token = state.push("math_block", "div", 0);
  token.content = lines.join("\n").trim();
  token.meta = { closed };
  token.map = [startLine, line + (closed ? 1 : 0)];
  token.block = true;
  state.line = Math.min(line + 1, endLine);
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

export function useRules(parser) {
  const { escapeHtml } = parser.utils;
  parser.validateLink = (url) => SAFE_LINK.test(url.trim());
  parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false }); // main.py is a file, not a host in Paraguay
  parser.inline.ruler.before("escape", "math", inlineMath);
  parser.block.ruler.before("fence", "math", blockMath, { alt: ["paragraph", "reference", "blockquote", "list"] });
  parser.core.ruler.after("inline", "tasks", tasks);
  parser.renderer.rules.math_inline = (tokens, i) => `<span class="math">${escapeHtml(tokens[i].content)}</span>`;
  parser.renderer.rules.task = (tokens, i) => `<span class="task${tokens[i].meta.done ? " done" : ""}"></span>`;
  parser.renderer.rules.image = (tokens, i) => {
    const url = tokens[i].attrGet("src") || "";
    const text = tokens[i].content || t("code.image");
    return SAFE_LINK.test(url) ? `<a href="${escapeHtml(url)}">${escapeHtml(text)}</a>` : escapeHtml(text);
  };
}
