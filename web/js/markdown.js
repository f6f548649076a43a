// Markdown to safe DOM. markdown-it parses (raw HTML off), DOMPurify checks what came out, highlight.js colours code.
// While an answer streams, only its last block is parsed and rendered again: finished blocks stay untouched.

import { t } from "./i18n.js";

let parser = null;
let purify = null;
let highlighter = null;
let loading = null;

/** Loads the libraries once; until then, and without them, text is shown as it is. */
export function loadMarkdown() {
  loading ??= Promise.all([
    import("../vendor/markdown-it.min.js"),
    import("../vendor/purify.es.mjs"),
    import("../vendor/highlight.min.js"),
  ]).then(([, dompurify, hljs]) => {
    purify = dompurify.default;
    highlighter = hljs.default;
    parser = globalThis.markdownit({ html: false, linkify: true, breaks: false, typographer: false });
    parser.validateLink = (url) => /^(https?:|mailto:|#)/i.test(url.trim());
    parser.renderer.rules.image = (tokens, i) => { // an answer never loads anything from elsewhere
      const token = tokens[i];
      return `<a href="${parser.utils.escapeHtml(token.attrGet("src") || "")}">${parser.utils.escapeHtml(token.content || t("code.image"))}</a>`;
    };
    purify.addHook("afterSanitizeAttributes", (node) => {
      if (node.tagName === "A" && node.hasAttribute("href")) {
        node.setAttribute("target", "_blank");
        node.setAttribute("rel", "noopener noreferrer nofollow");
      }
    });
  }).catch(() => { loading = null; });
  return loading;
}

const ALLOWED = {
  ALLOWED_TAGS: ["p", "br", "hr", "em", "strong", "s", "code", "pre", "blockquote", "ul", "ol", "li", "a",
    "h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"],
  ALLOWED_ATTR: ["href", "start", "class", "align", "target", "rel"],
  ALLOW_DATA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

function toFragment(text) {
  if (!parser) {
    const fragment = document.createDocumentFragment();
    const p = document.createElement("p");
    p.style.whiteSpace = "pre-wrap";
    p.textContent = text;
    fragment.append(p);
    return fragment;
  }
  return purify.sanitize(parser.render(text), ALLOWED);
}

/** Where the last top-level block begins, as an offset into text. */
function lastBlockStart(text) {
  const tokens = parser.parse(text, {});
  let line = 0;
  for (const token of tokens) if (token.level === 0 && token.map && token.nesting >= 0) line = token.map[0];
  let at = 0;
  for (let i = 0; i < line; i++) at = text.indexOf("\n", at) + 1;
  return at;
}

function decorateCode(root, final) {
  for (const code of root.querySelectorAll("pre > code")) {
    const language = /language-([\w+#-]+)/.exec(code.className)?.[1] || "";
    if (final && language && highlighter?.getLanguage(language) && code.textContent.length < 100000) {
      code.classList.add("hljs");
      const coloured = highlighter.highlight(code.textContent, { language, ignoreIllegals: true }).value;
      code.replaceChildren(purify.sanitize(coloured, { ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"], RETURN_DOM_FRAGMENT: true }));
    }
    const pre = code.parentElement;
    const box = document.createElement("div");
    box.className = "code";
    const head = document.createElement("div");
    head.className = "code-head";
    const name = document.createElement("span");
    name.textContent = language || t("code.text");
    const buttons = document.createElement("span");
    for (const [label, what] of [[t("code.wrap"), "wrap"], [t("code.copy"), "copy"]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.code = what;
      button.textContent = label;
      buttons.append(button);
    }
    head.append(name, buttons);
    pre.tabIndex = 0;
    pre.replaceWith(box);
    box.append(head, pre);
  }
}

/** One growing Markdown text inside `root`. */
export class MarkdownView {
  constructor(root) {
    this.root = root;
    this.text = "";
    this.stable = 0; // characters before it are rendered for good
    this.tail = null; // the element that holds the rest
  }

  append(text) {
    this.text += text;
    this.draw(false);
  }

  /** The whole text at its end: rendered in one piece, with colours. */
  finish(text = this.text) {
    this.text = text;
    this.stable = 0;
    this.root.replaceChildren();
    this.tail = null;
    if (text) this.draw(true);
  }

  draw(final) {
    let rest = this.text.slice(this.stable);
    if (!final && parser) {
      const start = lastBlockStart(rest);
      if (start > 0) {
        this.place(rest.slice(0, start), true);
        this.tail = null;
        this.stable += start;
        rest = rest.slice(start);
      }
    }
    this.place(rest, final);
  }

  place(text, final) {
    if (!this.tail) {
      this.tail = document.createElement("div");
      this.root.append(this.tail);
    }
    const fragment = toFragment(text);
    decorateCode(fragment, final);
    this.tail.replaceChildren(fragment);
  }
}

/** Copy and wrap buttons of code boxes, for a whole container. */
export function handleCodeClick(event, copy) {
  const button = event.target.closest("button[data-code]");
  if (!button) return false;
  const box = button.closest(".code");
  if (button.dataset.code === "wrap") box.classList.toggle("wrap");
  else copy(box.querySelector("code").textContent);
  return true;
}
