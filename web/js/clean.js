// The one door by which HTML becomes nodes of the page: DOMPurify lets through what an answer may have within a block. Its
// Trusted Types policy, "dompurify", is the only one that the page's policy (nginx/headers.conf) lets anybody make.

import { t } from "./i18n.js";

let purify = null;

export async function loadCleaner() {
  if (purify) return;
  await import("../vendor/purify.min.js");
  purify = globalThis.DOMPurify;
  purify.addHook("afterSanitizeAttributes", harden);
}

const INLINE = { // all that an answer may have within a block
  ALLOWED_TAGS: ["a", "br", "code", "em", "s", "span", "strong"],
  ALLOWED_ATTR: ["class", "href", "title"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};
const CLASSES = /^(math|plain|footnote-ref|task|task done|hljs-[\w -]+|language-\w+|function_|class_|inherited__)( |$)/; // what our rules and highlight.js write

function harden(node) {
  if (node.hasAttribute("class") && !CLASSES.test(node.className)) node.removeAttribute("class");
  if (node.tagName !== "A") return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer nofollow ugc");
}

/** Checked nodes of HTML that the parser or the highlighter wrote; text without a mark is only text. */
export function cleanInline(html) {
  if (!/[<&]/.test(html)) return document.createTextNode(html);
  const fragment = purify.sanitize(html, INLINE);
  for (const task of fragment.querySelectorAll(".task")) {
    task.setAttribute("role", "img");
    task.setAttribute("aria-label", t(task.classList.contains("done") ? "code.taskDone" : "code.taskOpen"));
  }
  for (const sign of fragment.querySelectorAll(".footnote-ref")) {
    sign.setAttribute("role", "link");
    sign.setAttribute("tabindex", "0");
    sign.setAttribute("aria-label", t("answer.footnote", { label: sign.textContent }));
  }
  return fragment;
}
