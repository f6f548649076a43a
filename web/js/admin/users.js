// Users: who there is, what each used today, invitations. A name opens one user's dialog (person.js).

import { call } from "../api.js";
import { allUsers } from "./people.js";
import { personDialog } from "./person.js";
import { dayBarsSmall } from "../bars.js";
import { copyText, el, rounds, toast } from "../dom.js";
import { date, t } from "../i18n.js";
import { render } from "../render.js";
import { ago, block, bytes, count, dateTime, problem, table } from "./view.js";

const DAYS = 30;
const DAY_MS = 86400000;

/** The last 30 days of each user by id: {first (days since 1970), of(id): tokens a day}. */
async function dailyTokens() {
  const { from, days, users } = await call("GET", `/api/admin/usage/daily?days=${DAYS}`);
  const by = new Map(users.map((u) => [u.user_id, u.prompt_tokens.map((n, i) => n + u.completion_tokens[i])]));
  return { first: Math.round(Date.parse(from) / DAY_MS), of: (id) => by.get(id) || Array(days).fill(0) };
}

/** "3 hours ago", "yesterday"; exactly when is told under the pointer. */
function lastSeen(ms) {
  return ms ? el("time", { title: dateTime(ms), dateTime: new Date(ms).toISOString() }, ago(ms)) : t("admin.never");
}

function monthOf(user, daily) {
  const values = daily.of(user.id);
  return el("span", { class: "month" }, dayBarsSmall({ label: user.name, first: daily.first, values, words: (n) => t("thread.tokens", { n }) }), count(values.reduce((a, b) => a + b, 0)));
}

function stateOf(user) {
  const words = [t(`users.role_${user.role}`), ...user.groups.map((g) => g.name)];
  if (user.disabled) words.push(t("users.disabled"));
  if (user.second_factor) words.push(t("users.factor"));
  return words.join(", ");
}

function usersTable({ users, daily }, open) {
  return table(t("users.title"), [t("users.name"), t("users.state"), t("users.seen"), t("users.tokensToday"), t("users.month"), t("users.stored"), t("users.access")],
    users.map((u) => [el("button", { type: "button", class: "name-button", data: { key: u.name }, on: { click: () => open(u) } }, u.name), stateOf(u),
      lastSeen(u.last_seen_at), count(u.used.tokens_today), monthOf(u, daily), bytes(u.used.storage_bytes),
      `${t("users.sessionsOf", { n: u.sessions })}, ${t("users.keysOf", { n: u.keys })}`]), users.map((u) => u.id));
}

function inviteLink(made) {
  const link = `${location.origin}/#/invite/${made.invite}`;
  return el("div", { class: "note" }, el("p", {}, t("users.linkOnce", { date: date(made.expires_at) })),
    el("code", { class: "invite-link" }, link), " ",
    el("button", { type: "button", class: "quiet small", on: { click: () => copyText(link) } }, t("users.copyLink")));
}

/** Boxes of the groups that there are; [node, ids that are chosen()]. */
function groupPick() {
  const boxes = el("div", { class: "pick-list" });
  const node = el("details", { class: "group-pick", hidden: true }, el("summary", {}, t("groups.invite")), boxes);
  call("GET", "/api/groups").then(({ items }) => {
    node.hidden = !items.length;
    boxes.replaceChildren(...items.map((g) => el("label", { class: "check-line" }, el("input", { type: "checkbox", value: g.id }), g.name)));
  }, () => { /* it can do without */ });
  return [node, () => [...boxes.querySelectorAll("input:checked")].map((x) => x.value)];
}

function inviteForm(done) {
  const [groups, chosen] = groupPick();
  const role = el("select", { name: "role", ariaLabel: t("users.role") }, el("option", { value: "user" }, t("users.role_user")),
    el("option", { value: "admin" }, t("users.role_admin")));
  const note = el("input", { maxLength: 64, placeholder: t("users.note"), ariaLabel: t("users.note") });
  return el("form", { class: "admin-row", on: { submit: async (event) => {
    event.preventDefault();
    try {
      const made = await call("POST", "/api/invites", { role: role.value, note: note.value.trim(), groups: chosen() });
      note.value = "";
      done(made);
    } catch (error) { toast(error.message); }
  } } }, note, role, groups, el("button", { class: "primary" }, t("users.invite")));
}

function inviteTable(items, redraw) {
  return table(t("users.invites"), [t("users.note"), t("users.role"), t("users.state"), t("users.by"), t("users.until"), ""],
    items.map((i) => [i.note || "–", [t(`users.role_${i.role}`), ...i.groups].join(", "), i.used_by ? t("users.usedBy", { name: i.used_by }) : t(`users.invite_${i.state}`),
      i.made_by || "–", date(i.expires_at), i.state !== "open" ? "" : el("button", { type: "button", class: "quiet small", data: { key: "revoke" }, on: { click: async () => {
        try { await call("DELETE", `/api/invites/${i.id}`); } catch (error) { toast(error.message); }
        redraw();
      } } }, t("users.revoke"))]), items.map((i) => i.id));
}

function newUserForm(done) {
  const name = el("input", { maxLength: 64, required: true, autocomplete: "off", placeholder: t("users.name"), ariaLabel: t("users.name") });
  const password = el("input", { type: "password", required: true, minLength: 8, autocomplete: "new-password", placeholder: t("login.password"), ariaLabel: t("login.password") });
  return el("form", { class: "admin-row", on: { submit: async (event) => {
    event.preventDefault();
    try {
      await call("POST", "/api/users", { name: name.value.trim(), password: password.value, role: "user" });
      event.target.reset();
      done();
    } catch (error) { toast(error.message); }
  } } }, name, password, el("button", { class: "quiet" }, t("users.add")));
}

/** Draws what `fetch` gives into a node of its own; again when asked: [node, draw]. */
function list(signal, fetch, parts) {
  const node = el("div", {});
  const begin = rounds();
  const draw = async () => {
    const isNewest = begin();
    const counts = () => isNewest() && !signal.aborted;
    try {
      const found = await fetch();
      if (counts()) render(node, ...parts(found, draw));
    } catch (error) { if (counts()) render(node, problem(error)); }
  };
  return [node, draw];
}

function closedNote(draw) {
  const turnOn = async () => {
    try {
      await call("PATCH", "/api/admin/settings", { sign_up: "invite" });
      toast(t("users.turnedOn"));
    } catch (error) { toast(error.message, 5000); }
    draw();
  };
  return el("div", { class: "note" }, el("p", {}, t("users.closed")), el("div", { class: "admin-row" },
    el("button", { type: "button", class: "primary small", data: { key: "turn-on" }, on: { click: turnOn } }, t("users.turnOn")),
    el("a", { href: "#/settings/sign_up" }, t("users.toSettings"))));
}

async function open(view, signal) {
  const [people, drawPeople] = list(signal, async () => {
    const [users, daily] = await Promise.all([allUsers(), dailyTokens()]);
    return { users, daily };
  }, (found, draw) => [usersTable(found, (user) => personDialog(user, draw))]);
  const [closed, drawClosed] = list(signal, () => call("GET", "/api/sign-up"), ({ policy }, draw) => {
    invite.hidden = policy === "closed"; // a link that nobody could use is not made
    return policy === "closed" ? [closedNote(draw)] : [];
  });
  const [invites, drawInvites] = list(signal, () => call("GET", "/api/invites"), ({ items }, draw) => [
    items.length ? inviteTable(items, draw) : el("p", { class: "muted" }, t("users.noInvites"))]);
  const link = el("div", {});
  const invite = inviteForm((made) => { link.replaceChildren(inviteLink(made)); drawInvites(); });
  view.append(el("div", { class: "blocks" }, block(t("users.invites"), closed, invite, link, invites), block(t("users.all"), people, newUserForm(drawPeople))));
  await Promise.all([drawPeople(), drawClosed(), drawInvites()]);
}

export const usersSection = { id: "users", title: t("users.title"), open };
