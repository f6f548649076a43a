// Log: the newest lines of all processes, as they come. They hold no prompts and no answers.

import { el } from "../dom.js";
import { t } from "../i18n.js";
import { clock, dateTime, poll, problem } from "./view.js";

const LEVELS = ["error", "warn", "info", "debug"];
const KEPT = 1000;
const OWN = / method=GET route=\/api\/(admin\/(log|status|history|upstreams|models|registry|usage\/daily)|changes|status) status=20[04] /; // what this page and the chat's ask again and again
const REQUEST = /\b(id=)(req_\w+)/;

function open(view, signal) {
  const level = el("select", { ariaLabel: t("admin.logLevel") }, ...LEVELS.map((l) => el("option", { value: l, selected: l === "info" }, t(`admin.level_${l}`))));
  const filter = el("input", { type: "search", ariaLabel: t("admin.logFilter"), placeholder: t("admin.logFilter"), autocomplete: "off" });
  const follow = el("input", { type: "checkbox", checked: true, id: "log-follow" });
  const list = el("ol", { class: "log", tabIndex: 0, ariaLabel: t("admin.logs") });
  const problems = el("div");
  let after = 0;
  view.append(el("div", { class: "admin-row" }, level, filter, el("label", { class: "log-follow", htmlFor: "log-follow" }, follow, t("admin.logFollow"))),
    el("p", { class: "muted" }, t("admin.logHelp")), problems, list);

  const shown = (node) => { node.hidden = !node.textContent.toLowerCase().includes(filter.value.toLowerCase()); };
  /** A request's id finds all that was logged about it. */
  const words = (text) => {
    const [all, before, id] = REQUEST.exec(text) || [];
    if (!id) return [text];
    const at = text.indexOf(all);
    return [text.slice(0, at) + before, el("button", { type: "button", class: "log-id", tabIndex: -1, title: t("admin.logRequest"), data: { id } }, id), text.slice(at + all.length)];
  };
  list.addEventListener("click", ({ target }) => {
    if (!target.dataset.id) return;
    filter.value = target.dataset.id;
    filter.dispatchEvent(new Event("input"));
    filter.focus();
  });
  const draw = (log) => {
    problems.replaceChildren();
    after = log.next;
    for (const line of log.items) {
      if (OWN.test(line.text)) continue;
      const node = el("li", { class: `log-${line.level}` }, el("time", { title: dateTime(line.at), dateTime: new Date(line.at).toISOString() }, clock(line.at)),
        el("b", {}, t(`admin.level_${line.level}`)), el("span", { class: "log-from" }, `${line.program} ${line.pid} ${line.module}`), el("span", { class: "log-text" }, ...words(line.text)));
      shown(node);
      list.append(node);
    }
    while (list.childElementCount > KEPT) list.firstChild.remove();
    if (follow.checked && log.items.length) list.scrollTop = list.scrollHeight;
  };
  const again = poll(signal, 2000, () => `/api/admin/log?level=${level.value}&after=${after}`, draw, (error) => problems.replaceChildren(problem(error)));
  level.addEventListener("change", () => { after = 0; list.replaceChildren(); again(); });
  filter.addEventListener("input", () => { for (const node of list.children) shown(node); });
  follow.addEventListener("change", () => { if (follow.checked) list.scrollTop = list.scrollHeight; });
  return again.first;
}

export const logsSection = { id: "logs", get title() { return t("admin.logs"); }, open };
