// What needs a hand, at the top of the operator's first page: each line says what is wrong and where it is mended.

import { el } from "../dom.js";
import { date, t } from "../i18n.js";
import { block } from "./view.js";

const OLD_BACKUP_MS = 7 * 86400000;

function engine({ engine: e }) {
  if (e.state === "ready" || e.state === "loading") return null;
  return { text: t(e.reason ? `serverErrors.${e.reason}` : "admin.engineDown"), href: "#/models", where: t("admin.models") };
}

function backup({ database: d }) {
  if (d.error) return null; // of a database that can't be read other things matter
  if (!(d.backup_at > 0)) return { text: t("admin.noBackup") };
  return Date.now() - d.backup_at > OLD_BACKUP_MS ? { text: t("admin.oldBackup", { date: date(d.backup_at) }) } : null;
}

function crashes({ pools }) {
  const n = pools.reduce((sum, pool) => sum + pool.crashed, 0);
  return n ? { text: t("admin.crashes", { n }), href: "#/logs", where: t("admin.logs") } : null;
}

function findings(checks) {
  const n = checks.filter((c) => c.verdict !== "ok").length;
  return n ? { text: t("admin.findings", { n }), href: "#/checks", where: t("admin.checks") } : null;
}

/** How many records of deleted chats wait for an engine with a prompt cache on disk, which alone removes them. */
export const waitingRemovals = ({ engine: e, prompt_cache: c }) => (e.state === "ready" && c.on ? 0 : c.removals);

function removals(s) {
  const n = waitingRemovals(s);
  return n ? { text: t("admin.removalsWait", { n }), href: "#/models", where: t("admin.models") } : null;
}

/** s: /api/admin/status; checks: what the checks found, [] as long as they run. */
export function attentionBlock(s, checks) {
  const lines = [engine(s), backup(s), crashes(s), removals(s), findings(checks)].filter(Boolean);
  if (!lines.length) return block(t("admin.attention"), el("p", { class: "muted" }, t("admin.allGood")));
  return block(t("admin.attention"), el("ul", { class: "attention" }, ...lines.map(({ text, href, where }) => el("li", {}, text, ...(href ? [" ", el("a", { href }, where)] : [])))));
}
