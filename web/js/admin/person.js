// One user, for admins: role, limits, password, second factor, sessions, keys, the end.

import { call } from "../api.js";
import { dayBars } from "../bars.js";
import { el, icon, rounds, toast } from "../dom.js";
import { date, loadStrings, t } from "../i18n.js";
import { render } from "../render.js";
import { sessionList } from "../security.js";
import { whileLoading } from "../skeleton.js";
import { LIMITS, limitFields } from "./limit_fields.js";
import { bytes, count, dateTime, facts, problem } from "./view.js";

await loadStrings();

const DAYS = 30;
const DAY_MS = 86400000;

/** A button that wants a second press before it acts. look: as what it stands there. */
function careful(label, run, look = "quiet") {
  let sure = false;
  const button = el("button", { type: "button", class: `${look} small`, data: { key: label }, on: { click: () => {
    if (sure) { run(); return; }
    sure = true;
    button.className = "danger small";
    button.textContent = t("users.sure", { action: label });
  }, blur: () => {
    sure = false;
    button.className = `${look} small`;
    button.textContent = label;
  } } }, label);
  return button;
}

function limitsForm(user, change) {
  const { nodes, read } = limitFields(user.limits, t("users.everyones"));
  return el("form", { class: "limits", data: { key: `limits ${JSON.stringify(user.limits)}` }, on: { submit: (event) => {
    event.preventDefault();
    const given = Object.entries(read()).filter(([, n]) => n !== null);
    change({ limits: given.length ? Object.fromEntries(given) : null });
  } } }, ...nodes, el("p", { class: "muted" }, t("users.limitsText")), el("div", {}, el("button", { class: "primary small" }, t("users.saveLimits"))));
}

/** What holds, and why: "50,000 (from group Research)". */
function inEffect(user) {
  const words = (name, n) => (n === 0 ? t("groups.noLimit") : name === "storage_bytes" ? bytes(n) : count(n));
  const from = ({ from: who, group }) => t(`groups.from_${who}`, { name: group });
  return facts(LIMITS.map((name) => [t(`users.limit_${name}`), `${words(name, user.effective[name])} (${from(user.limit_sources[name])})`]));
}

function passwordForm(change) {
  const input = el("input", { type: "password", minLength: 8, required: true, autocomplete: "new-password", ariaLabel: t("password.new"), placeholder: t("password.new") });
  return el("form", { class: "inline-form", data: { key: "password" }, on: { submit: (event) => {
    event.preventDefault();
    change({ password: input.value }, () => event.target.reset());
  } } }, input, el("button", { class: "quiet" }, t("users.setPassword")));
}

function keyList(user, items, redraw) {
  if (!items.length) return el("p", { class: "muted" }, t("keys.none"));
  return el("ul", { class: "keys" }, ...items.map((key) => el("li", { data: { key: key.id } }, el("span", { class: "grow" }, key.name), el("code", {}, `${key.prefix}…`),
    el("span", { class: "muted" }, key.last_used_at ? t("keys.used", { date: date(key.last_used_at) }) : t("keys.neverUsed")),
    el("button", { class: "icon-button", type: "button", data: { key: "delete" }, ariaLabel: t("keys.delete", { name: key.name }), on: { click: async () => {
      try { await call("DELETE", `/api/users/${user.id}/keys/${key.id}`); } catch (error) { toast(error.message); }
      redraw();
    } } }, icon("trash")))));
}

/** The last 30 days as columns. */
function monthChart({ from, days, users: [own] }) {
  const values = own ? own.prompt_tokens.map((n, i) => n + own.completion_tokens[i]) : Array(days).fill(0);
  return dayBars({ label: t("users.monthTokens"), first: Math.round(Date.parse(from) / DAY_MS), values });
}

async function fetchPerson(id) {
  const [user, { items: sessions }, daily] = await Promise.all([
    call("GET", `/api/users?limit=1&after=${id - 1}`).then(({ items }) => items[0]), call("GET", `/api/users/${id}/sessions`),
    call("GET", `/api/admin/usage/daily?days=${DAYS}&user_id=${id}`)]);
  if (user?.id !== id) throw new Error(t("users.gone")); // the list says who comes next
  return { user, sessions, daily, keys: (await call("GET", `/api/users/${id}/keys`)).items };
}

function parts({ user, sessions, daily, keys }, close, redraw) {
  const path = `/api/users/${user.id}`;
  const run = async (method, at, payload, done) => {
    try {
      await call(method, at, payload);
      done();
    } catch (error) { toast(error.message, 5000); }
  };
  const change = (what, done) => run("PATCH", path, what, () => { done?.(); toast(t("users.changed")); redraw(); });
  return [
    facts([[t("users.role"), t(`users.role_${user.role}`)], [t("users.state"), user.disabled ? t("users.disabled") : t("users.active")],
      [t("users.made"), dateTime(user.created_at)], [t("users.seen"), user.last_seen_at ? dateTime(user.last_seen_at) : t("admin.never")],
      [t("users.tokensToday"), count(user.used.tokens_today)], [t("users.stored"), bytes(user.used.storage_bytes)],
      [t("groups.of"), user.groups.map((g) => g.name).join(", ") || "–"], [t("security.factor"), t(user.second_factor ? "users.on" : "users.off")]]),
    el("div", { class: "admin-row person-actions" },
      careful(t(user.role === "admin" ? "users.makeUser" : "users.makeAdmin"), () => change({ role: user.role === "admin" ? "user" : "admin" })),
      careful(t(user.disabled ? "users.enable" : "users.disable"), () => change({ disabled: !user.disabled })),
      user.second_factor ? careful(t("users.dropFactor"), () => change({ second_factor: false })) : "",
      careful(t("users.remove"), () => run("DELETE", path, undefined, close), "quiet bad")),
    el("h3", {}, t("users.monthTokens")), monthChart(daily),
    el("h3", {}, t("users.limits")), limitsForm(user, change), el("h4", {}, t("groups.effective")), inEffect(user),
    el("h3", {}, t("users.newPassword")), passwordForm(change),
    el("h3", {}, t("security.sessions")),
    sessions.length ? sessionList(sessions, `${path}/sessions`, redraw) : el("p", { class: "muted" }, t("users.noSessions")),
    sessions.length > 1 ? careful(t("users.endAll"), () => run("DELETE", `${path}/sessions`, undefined, redraw)) : "",
    el("h3", {}, t("account.keys")), keyList(user, keys, redraw)];
}

export function personDialog({ id, name }, done) {
  const body = el("div", {});
  const title = el("h2", {}, name);
  const dialog = el("dialog", { class: "dialog person", ariaLabel: name }, title, body,
    el("form", { method: "dialog", class: "dialog-row" }, el("button", { class: "quiet" }, t("common.close"))));
  const begin = rounds();
  const redraw = async () => {
    const counts = begin();
    try {
      const person = await (body.firstChild ? fetchPerson(id) : whileLoading(body, "lines", fetchPerson(id)));
      if (!counts()) return;
      title.textContent = dialog.ariaLabel = person.user.name;
      render(body, ...parts(person, () => dialog.close(), redraw));
    } catch (error) { if (counts()) render(body, problem(error)); }
  };
  dialog.addEventListener("close", () => { dialog.remove(); done(); });
  document.body.append(dialog);
  dialog.showModal();
  redraw();
}
