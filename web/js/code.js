// A box of code: its language, copy and wrap, and colours when it is complete. highlight.js comes with the first box.

import { cleanInline } from "./clean.js";
import { el, icon } from "./dom.js";
import { t } from "./i18n.js";

const PICTURES = /^(html?|xhtml|svg|mermaid)$/i; // what can be shown instead of its text (js/preview.js)
const LONGEST_COLOURED = 100000; // characters
let loading = null;

function loadHighlighter() {
  loading ??= import("../vendor/highlight.min.js").then((module) => module.default).catch(() => { loading = null; });
  return loading;
}

const tool = (name, picture) => el("button", { class: "icon-button", type: "button", data: { code: name }, ariaLabel: t(`code.${name}`), title: t(`code.${name}`) }, icon(picture));

const ENDINGS = { bash: "sh", c: "c", cpp: "cpp", css: "css", diff: "diff", go: "go", html: "html", java: "java", javascript: "js", js: "js", json: "json", kotlin: "kt", lua: "lua",
  markdown: "md", md: "md", mermaid: "mmd", php: "php", py: "py", python: "py", ruby: "rb", rust: "rs", sh: "sh", shell: "sh", sql: "sql", svg: "svg", swift: "swift", toml: "toml",
  ts: "ts", typescript: "ts", xml: "xml", yaml: "yaml", yml: "yml" };

function download(language, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  el("a", { href: url, download: `code.${ENDINGS[language.toLowerCase()] || "txt"}` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

export class CodeBox {
  constructor(language, text) {
    this.language = language;
    this.node = document.createTextNode(text);
    this.code = el("code", {}, this.node);
    this.coloured = false;
    this.root = el("div", { class: "code", dir: "ltr" },
      el("div", { class: "code-head" }, el("span", { class: "code-language" }, language || t("code.text")),
        el("span", { class: "code-tools" }, tool("wrap", "wrap"), tool("download", "download"), tool("copy", "copy"))),
      el("pre", { tabIndex: 0 }, this.code));
    this.root.querySelector("[data-code=wrap]").setAttribute("aria-pressed", "false");
    this.text = text;
  }

  setText(text) {
    if (text === this.text) return;
    if (this.coloured || !text.startsWith(this.text)) {
      this.node = document.createTextNode(text);
      this.code.replaceChildren(this.node);
      this.coloured = false;
    } else {
      this.node.appendData(text.slice(this.text.length));
    }
    this.text = text;
  }

  /** The text will not change any more: colours, and a picture where the text is one. */
  settle() {
    this.colour();
    if (PICTURES.test(this.language)) import("./preview.js").then((m) => m.offerPreview(this.root, this.language, () => this.text), () => {}); // without it the text is there
  }

  async colour() {
    if (this.coloured || !this.language || this.text.length > LONGEST_COLOURED) return;
    this.coloured = true;
    const { text } = this;
    const highlighter = await loadHighlighter();
    if (!highlighter?.getLanguage(this.language) || text !== this.text) return;
    const { value } = highlighter.highlight(text, { language: this.language, ignoreIllegals: true });
    this.code.replaceChildren(cleanInline(value));
  }
}

/** The buttons of code boxes, for a whole container. */
export function handleCodeClick(event, copy) {
  const button = event.target.closest("button[data-code]");
  if (!button) return false;
  const box = button.closest(".code");
  if (button.dataset.code === "wrap") button.setAttribute("aria-pressed", String(box.classList.toggle("wrap")));
  else if (button.dataset.code === "download") download(box.querySelector(".code-language").textContent, box.querySelector("code").textContent);
  else copy(box.querySelector("code").textContent);
  return true;
}
