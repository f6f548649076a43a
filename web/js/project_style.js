// What the modules of projects show: their texts and their styles, once.

import { el } from "./dom.js";
import { loadStrings } from "./i18n.js";

await Promise.all([loadStrings(), new Promise((done) => {
  document.head.append(el("link", { rel: "stylesheet", href: new URL("../css/projects.css", import.meta.url).href, on: { load: done, error: done } }));
})]);
