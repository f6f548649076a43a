// What a code box can show instead of its text: a page or a picture that an answer wrote, and diagrams. All of it lives in a frame
// without an origin and without a network (nginx's policy for /frame/); nothing of it becomes part of this page.

import { el, icon } from "./dom.js";
import { loadStrings, t } from "./i18n.js";

await loadStrings();

const MOST = 500000; // characters
const PAGES = ["html", "svg", "htm", "xhtml"];
const CENTRED = "<!doctype html><meta charset=utf-8><style>html,body{margin:0;height:100%}body{display:grid;place-items:center}svg{max-width:100%;max-height:100%}</style>";

const kindOf = (language) => (language.toLowerCase() === "mermaid" ? "diagram" : PAGES.includes(language.toLowerCase()) ? "html" : "");

/** A frame behind walls; send(): what it is given once it is ready; hear(): what it says then. */
function frame(page, kind, title, send, hear) {
  const node = el("iframe", { class: `code-frame ${kind}`, title, src: `/frame/${page}.html`, referrerPolicy: "no-referrer" });
  node.setAttribute("sandbox", "allow-scripts");
  const listen = ({ source, data }) => {
    if (!node.isConnected) { removeEventListener("message", listen); return; }
    if (source !== node.contentWindow || typeof data !== "object" || !data) return;
    if (data.ready) node.contentWindow.postMessage(send(), "*");
    else hear(data);
  };
  addEventListener("message", listen);
  return node;
}

/** In the colours of the page, also when those change. */
function drawDiagram(text, failed) {
  const sent = () => ({ text, dark: document.documentElement.dataset.theme === "dark" });
  const node = frame("diagram", "diagram", t("preview.diagram"), sent, ({ height, problem }) => {
    if (problem) failed(String(problem).split("\n")[0].slice(0, 200));
    else if (height > 0) {
      node.style.height = `${Math.min(height, 4000)}px`;
      node.dispatchEvent(new Event("grown", { bubbles: true }));
    }
  });
  const colours = new MutationObserver(() => {
    if (node.isConnected) node.contentWindow.postMessage(sent(), "*");
    else colours.disconnect();
  });
  colours.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  return node;
}

function drawPage(language, text) {
  const html = language.toLowerCase() === "svg" ? CENTRED + text : text;
  return frame("preview", "html", t("preview.page"), () => ({ html }), () => {});
}

/** Puts the button into a box's head; a diagram is drawn at once. Once is enough. */
export function offerPreview(root, language, text) {
  if (root.querySelector(".act-preview") || text().length > MOST || !text().trim()) return;
  const kind = kindOf(language);
  const pre = root.querySelector("pre");
  let shown = null;
  const button = el("button", { class: "act-preview", type: "button", ariaPressed: "false", on: { click: () => show(!shown) } });
  const problem = el("p", { class: "code-problem", role: "status", hidden: true });
  const draw = () => button.replaceChildren(icon(shown ? "source" : kind === "diagram" ? "columns" : "play"), t(shown ? "preview.code" : "preview.show"));

  function show(wanted) {
    shown?.remove();
    shown = null;
    problem.hidden = true;
    if (wanted) {
      shown = kind === "diagram" ? drawDiagram(text(), (why) => { show(false); problem.textContent = t("preview.failed", { why }); problem.hidden = false; }) : drawPage(language, text());
      root.append(shown);
    }
    pre.hidden = Boolean(shown);
    button.setAttribute("aria-pressed", String(Boolean(shown)));
    draw();
  }

  root.querySelector(".code-tools").prepend(button);
  root.append(problem);
  draw();
  if (kind === "diagram") show(true);
}
