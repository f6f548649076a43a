// A box of code: its language, copy and wrap, and colours when it is complete. highlight.js comes with the first box.

import { cleanInline } from "./clean.js";
import { el } from "./dom.js";
import { t } from "./i18n.js";

const LONGEST_COLOURED = 100000; // characters
let loading = null;

function loadHighlighter() {
  loading ??= import("../vendor/highlight.min.js").then((module) => module.default).catch(() => { loading = null; });
  return loading;
}

export class CodeBox {
  constructor(language, text) {
    this.language = language;
    this.node = document.createTextNode(text);
    this.code = el("code", {}, this.node);
    this.coloured = false;
    this.root = el("div", { class: "code", dir: "ltr" },
      el("div", { class: "code-head" }, el("span", { class: "code-language" }, language || t("code.text")),
        el("span", {},
          el("button", { type: "button", data: { code: "wrap" }, ariaPressed: "false" }, t("code.wrap")),
          el("button", { type: "button", data: { code: "copy" } }, t("code.copy")))),
      el("pre", { tabIndex: 0 }, this.code));
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

/** Copy and wrap buttons of code boxes, for a whole container. */
export function handleCodeClick(event, copy) {
  const button = event.target.closest("button[data-code]");
  if (!button) return false;
  const box = button.closest(".code");
  if (button.dataset.code === "wrap") button.setAttribute("aria-pressed", String(box.classList.toggle("wrap")));
  else copy(box.querySelector("code").textContent);
  return true;
}
