// Whom a project is shared with: a section of its owner's window.

import { call } from "./api.js";
import { announce, confirmDialog, el, icon } from "./dom.js";
import { t } from "./i18n.js";
import { render } from "./render.js";
import { state } from "./state.js";

/** Groups that may be named: the own ones; an admin's are all. */
async function myGroups() {
  return state.user?.role === "admin" ? (await call("GET", "/api/groups")).items : (await call("GET", "/api/account/limits")).groups;
}

const accessChoice = (label, value, props = {}) => el("select", { ariaLabel: label, ...props }, ...["reader", "editor"].map((x) => el("option", { value: x, selected: x === value }, t(`projectSharing.${x}`))));

/** The section; complain(error) tells what failed, null: nothing. */
export async function sharingSection(project, complain) {
  const path = `/api/projects/${project.id}/shares`;
  const [{ items }, groups] = await Promise.all([call("GET", path), myGroups()]);
  const list = el("ul", { class: "keys", ariaLabel: t("projectSharing.title") });
  let stored = items;
  let last = Promise.resolve();
  let waiting = 0;
  /** Changes are sent in the order in which they are made; once none waits, what is stored is shown. What failed is told until the next is made. */
  const change = (send) => {
    complain(null);
    waiting++;
    last = last.then(send).then((now) => { stored = now; }, complain).then(() => { if (!--waiting) draw(); });
  };
  const row = (x) => el("li", { data: { key: `${x.id} ${x.name}` } },
    el("span", { class: "grow", dir: "auto" }, x.name, " ", x.kind === "group" ? el("span", { class: "badge" }, t("projectSharing.group", { n: x.members })) : null),
    accessChoice(t("projectSharing.accessOf", { name: x.name }), x.access, { data: { key: "access" }, on: { change: ({ target: { value } }) => change(async () => {
      const body = x.kind === "user" ? { user: x.name } : { group_id: groups.find((g) => g.name === x.name)?.id };
      return (await call("POST", path, { ...body, access: value })).items;
    }) }, disabled: x.kind === "group" && !groups.some((g) => g.name === x.name) }),
    el("button", { class: "icon-button", type: "button", ariaLabel: t("projectSharing.stop", { name: x.name }), data: { key: "stop" }, on: { click: async () => {
      if (!await confirmDialog(t("projectSharing.stopTitle", { name: x.name }), t("projectSharing.stopText"), t("projectSharing.stopShort"))) return;
      change(async () => {
        await call("DELETE", `${path}/${x.id}`);
        return (await call("GET", path)).items;
      });
    } } }, icon("trash")));
  const draw = () => {
    render(list, ...stored.map(row));
    stored.forEach((x, i) => { list.children[i].querySelector("select").value = x.access; }); // a choice stays the same element, since it may be open
  };
  const whom = el("select", { ariaLabel: t("projectSharing.whom"), hidden: !groups.length, on: { change: () => { name.hidden = whom.value !== ""; } } },
    el("option", { value: "" }, t("projectSharing.user")), ...groups.map((g) => el("option", { value: g.id }, t("projectSharing.groupNamed", { name: g.name }))));
  const name = el("input", { type: "text", maxLength: 64, autocomplete: "off", autocapitalize: "none", spellcheck: false, placeholder: t("projectSharing.name"), ariaLabel: t("projectSharing.name") });
  const access = accessChoice(t("projectSharing.access"), "reader");
  const add = () => {
    const body = { ...(whom.value ? { group_id: whom.value } : { user: name.value.trim() }), access: access.value };
    if (!whom.value && !body.user) { name.focus(); return; }
    change(async () => {
      const { items: now } = await call("POST", path, body);
      announce(t("projectSharing.done"));
      if (name.value.trim() === body.user) name.value = "";
      return now;
    });
  };
  name.addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.isComposing) { event.preventDefault(); add(); } }); // the form around is the project's
  draw();
  return el("section", { class: "project-sharing", ariaLabel: t("projectSharing.title") }, el("h3", {}, t("projectSharing.title")), el("p", { class: "muted" }, t("projectSharing.text")), list,
    el("div", { class: "project-share-add" }, whom, name, access, el("button", { type: "button", class: "quiet", on: { click: add } }, icon("plus"), t("projectSharing.add"))));
}

/** Whose it is and what one may do there, for others than its owner. */
export const sharedBy = (project) => el("p", { class: "muted" }, t(`projectSharing.by_${project.access}`, { name: project.owner }));
