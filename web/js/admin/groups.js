// Groups of users: who is in them, and what they give: models and tool servers that not everyone may use, and limits.

import { call } from "../api.js";
import { confirmDialog, el, rounds, toast } from "../dom.js";
import { t } from "../i18n.js";
import { render } from "../render.js";
import { limitFields } from "./limit_fields.js";
import { allUsers } from "./people.js";
import { block, count, problem, table } from "./view.js";

const SHOWN = 100; // people at one time; more are found by the search

function givesWords(g) {
  const limits = Object.values(g.limits).filter((n) => n !== null).length;
  return [g.models.length && t("groups.nModels", { n: g.models.length }), g.tool_servers.length && t("groups.nTools", { n: g.tool_servers.length }), limits && t("groups.nLimits", { n: limits })].filter(Boolean).join(", ") || "–";
}

const groupsTable = (items, open) => table(t("groups.all"), [t("groups.name"), t("groups.description"), t("groups.members"), t("groups.gives")],
  items.map((g) => [el("button", { type: "button", class: "name-button", data: { key: g.name }, on: { click: () => open(g.id) } }, g.name), g.description || "–", count(g.members), givesWords(g)]), items.map((g) => g.id));

function addForm(done) {
  const name = el("input", { maxLength: 64, required: true, autocomplete: "off", placeholder: t("groups.name"), ariaLabel: t("groups.name") });
  const description = el("input", { maxLength: 200, autocomplete: "off", placeholder: t("groups.description"), ariaLabel: t("groups.description") });
  return el("form", { class: "admin-row", on: { submit: async (event) => {
    event.preventDefault();
    try {
      const made = await call("POST", "/api/groups", { name: name.value.trim(), description: description.value.trim() });
      event.target.reset();
      done(made.id);
    } catch (error) { toast(error.message, 5000); }
  } } }, name, description, el("button", { class: "primary" }, t("groups.add")));
}

// --- one group ------------------------------------------------------------------------------------------------------

const check = (label, props, note) => el("label", { class: "check-line" }, el("input", { type: "checkbox", ...props }), el("span", { class: "grow", dir: "auto" }, label), note ? el("span", { class: "muted" }, note) : null);

/** Everybody, by a search, with a box each; what was chosen stays chosen while one searches on. */
function membersForm(group, people, members, save) {
  const before = new Map(members.map((m) => [m.id, m]));
  const chosen = new Set(before.keys());
  const search = el("input", { type: "search", placeholder: t("groups.search"), ariaLabel: t("groups.search") });
  const list = el("div", { class: "pick-list", role: "group", ariaLabel: t("groups.members") });
  const words = el("p", { class: "muted", role: "status" });
  const draw = () => {
    const text = search.value.trim().toLowerCase();
    const found = people.filter((p) => p.name.toLowerCase().includes(text)).sort((a, b) => before.has(b.id) - before.has(a.id) || a.name.localeCompare(b.name));
    list.replaceChildren(...found.slice(0, SHOWN).map((p) => check(p.name, { checked: chosen.has(p.id), on: { change: ({ target }) => { if (target.checked) chosen.add(p.id); else chosen.delete(p.id); tell(found.length); } } }, before.get(p.id)?.by_provider ? t("groups.byProvider") : "")));
    tell(found.length);
  };
  const tell = (n) => { words.textContent = [t("groups.found", { n, chosen: chosen.size }), n > SHOWN ? t("groups.more", { n: n - SHOWN }) : ""].filter(Boolean).join(" · "); };
  search.addEventListener("input", draw);
  draw();
  return el("form", { class: "group-form", data: { key: `members ${members.map((m) => m.id)}` }, on: { submit: (event) => {
    event.preventDefault();
    save("POST", `/api/groups/${group.id}/members`, { add: [...chosen].filter((id) => !before.has(id)), remove: [...before.keys()].filter((id) => !chosen.has(id)) });
  } } }, search, list, words, el("div", {}, el("button", { class: "primary small" }, t("groups.saveMembers"))));
}

/** Boxes of what is not for everyone; what is, with a way to limit it. */
function givenList(title, items, chosen, { change, limit }) {
  const row = (x) => el("div", { class: "given", data: { key: `${x.id} ${x.open} ${chosen.includes(x.id)}` } },
    check(x.name, { checked: x.open || chosen.includes(x.id), disabled: x.open, on: { change: ({ target }) => change(target.checked ? [...chosen, x.id] : chosen.filter((id) => id !== x.id)) } }, x.open ? t("groups.forAll") : ""),
    el("button", { type: "button", class: "quiet small", ariaLabel: `${t(x.open ? "groups.restrict" : "groups.open")}: ${x.name}`, on: { click: () => limit(x) } }, t(x.open ? "groups.restrict" : "groups.open")));
  return el("div", { role: "group", ariaLabel: title, data: { key: title } }, ...(items.length ? items.map(row) : [el("p", { class: "muted" }, t("groups.nothing"))]));
}

function aboutForm(group, save) {
  const field = (name, props) => el("label", {}, t(`groups.${name}`), el("input", { name, value: group[name], ...props }));
  return el("form", { class: "group-form", data: { key: `about ${group.name} ${group.description} ${group.claim}` }, on: { submit: (event) => {
    event.preventDefault();
    save("PATCH", `/api/groups/${group.id}`, Object.fromEntries([...new FormData(event.target)].map(([k, v]) => [k, v.trim()])));
  } } }, field("name", { maxLength: 64, required: true }), field("description", { maxLength: 200 }), field("claim", { maxLength: 200 }), el("p", { class: "muted" }, t("groups.claimText")),
  el("div", {}, el("button", { class: "primary small" }, t("common.save"))));
}

function limitsForm(group, save) {
  const { nodes, read } = limitFields(group.limits, t("groups.unsaid"));
  return el("form", { class: "limits", data: { key: `limits ${JSON.stringify(group.limits)}` }, on: { submit: (event) => {
    event.preventDefault();
    save("PATCH", `/api/groups/${group.id}`, { limits: read() });
  } } }, ...nodes, el("p", { class: "muted" }, t("groups.limitsText")), el("div", {}, el("button", { class: "primary small" }, t("users.saveLimits"))));
}

async function fetchGroup(id) {
  const members = [];
  for (let page; !page || page.length === 500;) {
    ({ items: page } = await call("GET", `/api/groups/${id}/members?limit=500${members.length ? `&after=${members.at(-1).id}` : ""}`));
    members.push(...page);
  }
  const [group, people, models, servers] = await Promise.all([call("GET", `/api/groups/${id}`), allUsers(), call("GET", "/api/admin/registry"), call("GET", "/api/tool-servers")]);
  return { group, members, people, models: models.items.map((m) => ({ id: m.id, name: m.name, open: m.everyone })),
    servers: servers.items.filter((s) => s.everyone).map((s) => ({ id: s.id, name: s.name, open: s.groups === null })) };
}

function parts({ group, members, people, models, servers }, close, redraw) {
  const path = `/api/groups/${group.id}`;
  const save = async (method, at, payload) => {
    try { await call(method, at, payload); toast(t("groups.saved")); } catch (error) { toast(error.message, 5000); }
    redraw();
  };
  const remove = async () => {
    if (!await confirmDialog(t("groups.removeTitle", { name: group.name }), t("groups.removeText"), t("groups.remove"))) return;
    try { await call("DELETE", path); toast(t("groups.removed")); close(); } catch (error) { toast(error.message, 5000); }
  };
  return [aboutForm(group, save),
    el("h3", {}, t("groups.members")), membersForm(group, people, members, save),
    el("h3", {}, t("groups.models")), givenList(t("groups.models"), models, group.models, { change: (ids) => save("PATCH", path, { models: ids }), limit: (m) => save("PATCH", `/api/admin/registry/${m.id}`, { everyone: !m.open }) }),
    el("h3", {}, t("groups.tools")), givenList(t("groups.tools"), servers, group.tool_servers, { change: (ids) => save("PATCH", path, { tool_servers: ids }), limit: (s) => save("PUT", `/api/tool-servers/${s.id}/groups`, { groups: s.open ? [] : null }) }),
    el("h3", {}, t("groups.limits")), limitsForm(group, save),
    el("div", { class: "admin-row", data: { key: "remove" } }, el("button", { type: "button", class: "quiet bad", on: { click: remove } }, t("groups.remove")))];
}

function groupDialog(id, done) {
  const body = el("div", {});
  const title = el("h2", {});
  const dialog = el("dialog", { class: "dialog person" }, title, body, el("form", { method: "dialog", class: "dialog-row" }, el("button", { class: "quiet" }, t("common.close"))));
  const begin = rounds();
  const redraw = async () => {
    const counts = begin();
    try {
      const found = await fetchGroup(id);
      if (!counts()) return;
      title.textContent = dialog.ariaLabel = found.group.name;
      render(body, ...parts(found, () => dialog.close(), redraw));
    } catch (error) { if (counts()) render(body, problem(error)); }
  };
  dialog.addEventListener("close", () => { dialog.remove(); done(); });
  document.body.append(dialog);
  dialog.showModal();
  redraw();
}

async function open(view, signal) {
  const list = el("div", {});
  const begin = rounds();
  const draw = async () => {
    const isNewest = begin();
    const counts = () => isNewest() && !signal.aborted;
    try {
      const { items } = await call("GET", "/api/groups");
      if (counts()) render(list, items.length ? groupsTable(items, (id) => groupDialog(id, draw)) : el("p", { class: "muted" }, t("groups.none")));
    } catch (error) { if (counts()) render(list, problem(error)); }
  };
  view.append(el("div", { class: "blocks" }, block(t("groups.all"), el("p", { class: "muted" }, t("groups.intro")), list, addForm((id) => { draw(); groupDialog(id, draw); }))));
  await draw();
}

export const groupsSection = { id: "groups", title: t("groups.title"), open };
