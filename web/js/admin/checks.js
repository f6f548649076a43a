// Checks: what the server needs, whether it is there, what mends it: the same findings as `sluice doctor`.

import { call } from "../api.js";
import { el } from "../dom.js";
import { t } from "../i18n.js";
import { problem } from "./view.js";

const ORDER = ["failed", "warning", "ok"];

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
      const row = (c) => el("li", { class: `check check-${c.verdict}` }, el("span", { class: "check-verdict" }, t(`admin.verdict_${c.verdict}`)),
        el("div", {}, el("b", {}, c.check), el("p", {}, c.found), c.fix ? el("p", { class: "muted" }, t("admin.fix", { text: c.fix })) : null));
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
  run(false);
}

export const checksSection = { id: "checks", get title() { return t("admin.checks"); }, open };
