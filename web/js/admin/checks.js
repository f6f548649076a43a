// Checks: what the server needs, whether it is there, what mends it: the same findings as `sluice doctor`.

import { call } from "../api.js";
import { el } from "../dom.js";
import { has, t } from "../i18n.js";
import { noteOf } from "./server_words.js";
import { bytes, problem, span } from "./view.js";

const ORDER = ["failed", "warning", "ok"];

/** A finding in the reader's language, by its code; the server's own English where there are no words for it here. */
function wordsOf({ check, code, found, fix, text: written, n }) {
  const text = noteOf(written);
  const values = { text, n, size: bytes(n), seconds: span(n) };
  const say = (key, otherwise) => (has(key) ? t(key, values) : otherwise);
  const state = /^engine_(\w+)$/.exec(code || "")?.[1];
  return {
    name: say(`checks.name_${check.replace(/\W/g, "_")}`, check),
    found: state ? [say(`admin.state_${state}`, state), text].filter(Boolean).join(": ") : say(`checks.${code}`, text || found),
    fix: fix && say(`checks.${state ? "engine" : code}_fix`, fix),
  };
}

function open(view, signal) {
  const list = el("ul", { class: "checks" });
  const folded = el("ul", { class: "checks" });
  const rest = el("details", { class: "checks-fine", hidden: true }, el("summary", {}), folded); // what is fine needs no reading
  const sums = el("p", { class: "muted", role: "status" });
  const again = el("button", { class: "quiet", type: "button" }, t("admin.checkAgain"));
  const whole = el("button", { class: "quiet", type: "button" }, t("admin.checkDatabase"));
  const run = async (database) => {
    again.disabled = whole.disabled = true;
    try {
      const { items } = await call("GET", `/api/admin/checks${database ? "?database=true" : ""}`);
      if (signal.aborted) return;
      const n = (verdict) => items.filter((c) => c.verdict === verdict).length;
      sums.textContent = [["failed", "admin.sumFailed"], ["warning", "admin.sumWarnings"], ["ok", "admin.sumOk"]]
        .filter(([verdict]) => n(verdict)).map(([verdict, key]) => t(key, { n: n(verdict) })).join(" · ");
      items.sort((a, b) => ORDER.indexOf(a.verdict) - ORDER.indexOf(b.verdict)); // what needs a hand comes first
      const row = (c) => {
        const { name, found, fix } = wordsOf(c);
        return el("li", { class: `check check-${c.verdict}`, data: { code: c.code || "" } }, el("span", { class: "check-verdict" }, t(`admin.verdict_${c.verdict}`)),
          el("div", {}, el("b", {}, name), el("p", {}, found), fix ? el("p", { class: "muted" }, t("admin.fix", { text: fix })) : null));
      };
      const fine = items.filter((c) => c.verdict === "ok");
      const bad = items.filter((c) => c.verdict !== "ok");
      list.replaceChildren(...bad.map(row));
      folded.replaceChildren(...fine.map(row));
      rest.hidden = !fine.length;
      rest.firstChild.textContent = t("admin.checksFine", { n: fine.length });
      rest.open = !bad.length || rest.open;
    } catch (error) {
      list.replaceChildren(problem(error));
    }
    again.disabled = whole.disabled = false;
  };
  again.addEventListener("click", () => run(false));
  whole.addEventListener("click", () => run(true));
  view.append(el("div", { class: "admin-row" }, again, whole), sums, list, rest);
  return run(false);
}

export const checksSection = { id: "checks", get title() { return t("admin.checks"); }, open };
