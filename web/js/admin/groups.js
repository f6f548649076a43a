// Groups of users: who is in them, and what they give: models and tool servers that not everyone may use, and limits.

import { call } from "../api.js";
import { confirmDialog, el, leave, rounds, toast } from "../dom.js";
import { t } from "../i18n.js";
import { render } from "../render.js";
import { whileLoading } from "../skeleton.js";
import { limitFields } from "./limit_fields.js";
import { allUsers } from "./people.js";
import { block, count, problem, table } from "./view.js";

const SHOWN = 100; // people at one time; more are found by the search

function givesWords(g) {
  const limits = Object.values(g.limits).filter((n) => n !== null).length;
  return [g.models.length && t("groups.nModels", { n: g.models.length }), g.tool_servers.length && t("groups.nTools", { n: g.tool_servers.length }), limits && t("groups.nLimits", { n: limits })].filter(Boolean).join(", ") || "–";
}

const groupsTable = (items, open) => table(t("groups.all"), [t("groups.name"), t("groups.description"), t("groups.members"), t("groups.gives")],
  items.map((g) => [el("button", { type: "button", class: "name-button", data: { key: g.name }, on: { click: () => open(g) } }, g.name), g.description || "–", count(g.members), givesWords(g)]), items.map((g) => g.id));

function addForm(done) {
  const name = el("input", { maxLength: 64, required: true, autocomplete: "off", placeholder: t("groups.name"), ariaLabel: t("groups.name") });
  const description = el("input", { maxLength: 200, autocomplete: "off", placeholder: t("groups.description"), ariaLabel: t("groups.description") });
  return el("form", { class: "admin-row", on: { submit: async (event) => {
    event.preventDefault();
    try {
      const made = await call("POST", "/api/groups", { name: name.value.trim(), description: description.value.trim() });
      event.target.reset();
      done(made);
    } catch (error) { toast(error.message, 5000); }
  } } }, name, description, el("button", { class: "primary" }, t("groups.add")));
}

// --- one group ------------------------------------------------------------------------------------------------------

const check = (label, props, note) => el("label", { class: "check-line" }, el("input", { type: "checkbox", ...props }), el("span", { class: "grow", dir: "auto" }, label), note ? el("span", { class: "muted" }, note) : null);

// The parts of the window. What one has is read when it is saved: read() gives the fields of the group that it holds. While its key stays it
// is not drawn again, so that what is being typed stays.

/** Everybody, by a search, with a box each; what was chosen stays chosen while one searches on. */
function membersPart(people, members, changed) {
  const before = new Map(members.map((m) => [m.id, m]));
  const chosen = new Set(before.keys());
  const search = el("input", { type: "search", placeholder: t("groups.search"), ariaLabel: t("groups.search") });
  const list = el("div", { class: "pick-list", role: "group", ariaLabel: t("groups.members") });
  const words = el("p", { class: "muted", role: "status" });
  let found = [];
  const draw = () => {
    const text = search.value.trim().toLowerCase();
    found = people.filter((p) => p.name.toLowerCase().includes(text)).sort((a, b) => before.has(b.id) - before.has(a.id) || a.name.localeCompare(b.name));
    list.replaceChildren(...found.slice(0, SHOWN).map((p) => check(p.name, { checked: chosen.has(p.id), value: String(p.id) }, before.get(p.id)?.by_provider ? t("groups.byProvider") : "")));
    tell();
  };
  const tell = () => {
    const n = found.length;
    words.textContent = [t("groups.found", { n, chosen: chosen.size }), n > SHOWN ? t("groups.more", { n: n - SHOWN }) : ""].filter(Boolean).join(" · ");
  };
  const choose = ({ target }) => {
    if (target === search) return;
    const { id } = found.find((p) => String(p.id) === target.value);
    if (target.checked) chosen.add(id);
    else chosen.delete(id);
    changed();
    tell();
  };
  search.addEventListener("input", draw);
  search.addEventListener("keydown", (event) => { if (event.key === "Enter") event.preventDefault(); }); // it searches, and saves nothing
  draw();
  const node = el("div", { class: "group-form", data: { key: `members ${members.map((m) => m.id)}` }, on: { change: choose } }, search, list, words);
  node.members = () => ({ add: [...chosen].filter((id) => !before.has(id)), remove: [...before.keys()].filter((id) => !chosen.has(id)) });
  node.saved = ({ add, remove: gone }) => {
    for (const id of add) before.set(id, { id });
    for (const id of gone) before.delete(id);
  };
  return node;
}

/** Boxes of what is not for everyone; what is, with a way to limit it. */
function givenPart(title, items, chosen, { changed, limit }) {
  const row = (x) => el("div", { class: "given", data: { key: `${x.id} ${x.open}` } },
    check(x.name, { checked: x.open || chosen.has(x.id), disabled: x.open, on: { change: ({ target }) => { if (target.checked) chosen.add(x.id); else chosen.delete(x.id); changed(); } } }, x.open ? t("groups.forAll") : ""),
    el("button", { type: "button", class: "quiet small", ariaLabel: `${t(x.open ? "groups.restrict" : "groups.open")}: ${x.name}`, on: { click: () => limit(x) } }, t(x.open ? "groups.restrict" : "groups.open")));
  return el("div", { role: "group", ariaLabel: title, data: { key: title } }, ...(items.length ? items.map(row) : [el("p", { class: "muted" }, t("groups.nothing"))]));
}

function aboutPart(group, changed) {
  const fields = [["name", { maxLength: 64, required: true }], ["description", { maxLength: 200 }], ["claim", { maxLength: 200 }]]
    .map(([name, props]) => [name, el("input", { value: group[name], ...props })]);
  const node = el("div", { class: "group-form", data: { key: `about ${group.name} ${group.description} ${group.claim}` }, on: { input: changed } }, ...fields.map(([name, input]) => el("label", {}, t(`groups.${name}`), input)), el("p", { class: "muted" }, t("groups.claimText")));
  node.read = () => Object.fromEntries(fields.map(([name, input]) => [name, input.value.trim()]));
  return node;
}

function limitsPart(group, changed) {
  const { nodes, read } = limitFields(group.limits, t("groups.unsaid"));
  const node = el("div", { class: "limits", data: { key: `limits ${JSON.stringify(group.limits)}` }, on: { input: changed } }, ...nodes, el("p", { class: "muted" }, t("groups.limitsText")));
  node.read = () => ({ limits: read() });
  return node;
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

/** draft: what of models and tool servers is chosen. */
function parts({ group, members, people, models, servers }, { draft, changed, close, redraw }) {
  const act = async (method, at, payload) => {
    try { await call(method, at, payload); toast(t("groups.saved")); } catch (error) { toast(error.message, 5000); }
    redraw();
  };
  const remove = async () => {
    if (!await confirmDialog(t("groups.removeTitle", { name: group.name }), t("groups.removeText"), t("groups.remove"))) return;
    try { await call("DELETE", `/api/groups/${group.id}`); toast(t("groups.removed")); close(); } catch (error) { toast(error.message, 5000); }
  };
  return [aboutPart(group, changed),
    el("h3", {}, t("groups.members")), membersPart(people, members, changed),
    el("h3", {}, t("groups.models")), givenPart(t("groups.models"), models, draft.models, { changed, limit: (m) => act("PATCH", `/api/admin/registry/${m.id}`, { everyone: !m.open }) }),
    el("h3", {}, t("groups.tools")), givenPart(t("groups.tools"), servers, draft.tool_servers, { changed, limit: (s) => act("PUT", `/api/tool-servers/${s.id}/groups`, { groups: s.open ? [] : null }) }),
    el("h3", {}, t("groups.limits")), limitsPart(group, changed),
    el("div", { class: "admin-row", data: { key: "remove" } }, el("button", { type: "button", class: "quiet bad", on: { click: remove } }, t("groups.remove")))];
}

function groupDialog({ id, name }, done) {
  const path = `/api/groups/${id}`;
  const body = el("div", {});
  const title = el("h2", {}, name);
  const save = el("button", { class: "primary", disabled: true }, t("common.save"));
  const form = el("form", {}, body, el("div", { class: "dialog-row" }, el("button", { class: "quiet", type: "button", on: { click: () => leave(dialog) } }, t("common.close")), save));
  const dialog = el("dialog", { class: "dialog person", ariaLabel: name }, title, form);
  const begin = rounds();
  const draft = { models: new Set(), tool_servers: new Set() }; // the same sets as long as it is open: boxes that are not drawn again hold them
  let changes = 0;
  let saved = 0; // how many of the changes
  const changed = () => { changes++; save.disabled = false; };
  const redraw = async (afterSave = false) => {
    const counts = begin();
    try {
      const found = await (body.firstChild ? fetchGroup(id) : whileLoading(body, "lines", fetchGroup(id)));
      if (!counts() || (afterSave && changes !== saved)) return; // what was changed meanwhile stays, and is saved next
      title.textContent = dialog.ariaLabel = found.group.name;
      if (changes === saved) for (const name of Object.keys(draft)) {
        draft[name].clear();
        for (const x of found.group[name]) draft[name].add(x);
      }
      render(body, ...parts(found, { draft, changed, close: () => dialog.close(), redraw: () => redraw() }));
    } catch (error) { if (counts()) render(body, problem(error)); }
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (save.disabled) return; // Enter in a field of which nothing was changed
    save.disabled = true;
    const these = changes;
    const fields = Object.assign({ models: [...draft.models], tool_servers: [...draft.tool_servers] }, ...[...body.children].map((part) => part.read?.() ?? {}));
    const people = [...body.children].find((part) => part.members);
    const members = people.members();
    try {
      await call("PATCH", path, fields);
      if (members.add.length || members.remove.length) await call("POST", `${path}/members`, members);
      toast(t("groups.saved"));
      people.saved(members);
      saved = these;
    } catch (error) {
      toast(error.message, 5000);
      save.disabled = false;
      return; // what was typed stays
    }
    redraw(true);
  });
  dialog.addEventListener("cancel", async (event) => {
    if (save.disabled) return; // nothing is lost
    event.preventDefault();
    if (await confirmDialog(t("groups.discardTitle"), t("groups.discardText", { name: title.textContent }), t("admin.discard"))) dialog.close();
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || save.disabled) return;
    event.preventDefault(); // here: a browser lets only the first of two "cancel" in a row be prevented
    leave(dialog);
  });
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
      if (counts()) render(list, items.length ? groupsTable(items, (group) => groupDialog(group, draw)) : el("p", { class: "muted" }, t("groups.none")));
    } catch (error) { if (counts()) render(list, problem(error)); }
  };
  view.append(el("div", { class: "blocks" }, block(t("groups.all"), el("p", { class: "muted" }, t("groups.intro")), list, addForm((group) => { draw(); groupDialog(group, draw); }))));
  await draw();
}

export const groupsSection = { id: "groups", title: t("groups.title"), open };
