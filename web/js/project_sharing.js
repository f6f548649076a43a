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
  const act = async (work) => { try { complain(null); await work(); } catch (error) { complain(error); } };
  const row = (x) => el("li", { data: { key: `${x.id} ${x.access}` } },
    el("span", { class: "grow", dir: "auto" }, x.name, " ", x.kind === "group" ? el("span", { class: "badge" }, t("projectSharing.group", { n: x.members })) : null),
    accessChoice(t("projectSharing.accessOf", { name: x.name }), x.access, { on: { change: ({ target }) => act(async () => {
      const body = x.kind === "user" ? { user: x.name } : { group_id: groups.find((g) => g.name === x.name)?.id };
      draw((await call("POST", path, { ...body, access: target.value })).items);
    }) }, disabled: x.kind === "group" && !groups.some((g) => g.name === x.name) }),
    el("button", { class: "icon-button", type: "button", ariaLabel: t("projectSharing.stop", { name: x.name }), data: { key: "stop" }, on: { click: () => act(async () => {
      if (!await confirmDialog(t("projectSharing.stopTitle", { name: x.name }), t("projectSharing.stopText"), t("projectSharing.stopShort"))) return;
      await call("DELETE", `${path}/${x.id}`);
      draw((await call("GET", path)).items);
    }) } }, icon("trash")));
  const draw = (shares) => render(list, ...shares.map(row));
  const whom = el("select", { ariaLabel: t("projectSharing.whom"), hidden: !groups.length, on: { change: () => { name.hidden = whom.value !== ""; } } },
    el("option", { value: "" }, t("projectSharing.user")), ...groups.map((g) => el("option", { value: g.id }, t("projectSharing.groupNamed", { name: g.name }))));
  const name = el("input", { type: "text", maxLength: 64, autocomplete: "off", autocapitalize: "none", spellcheck: false, placeholder: t("projectSharing.name"), ariaLabel: t("projectSharing.name") });
  const access = accessChoice(t("projectSharing.access"), "reader");
  const add = () => act(async () => {
    const body = whom.value ? { group_id: whom.value } : { user: name.value.trim() };
    if (!whom.value && !body.user) { name.focus(); return; }
    draw((await call("POST", path, { ...body, access: access.value })).items);
    announce(t("projectSharing.done"));
    name.value = "";
  });
  name.addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.isComposing) { event.preventDefault(); add(); } }); // the form around is the project's
  draw(items);
  return el("section", { class: "project-sharing", ariaLabel: t("projectSharing.title") }, el("h3", {}, t("projectSharing.title")), el("p", { class: "muted" }, t("projectSharing.text")), list,
    el("div", { class: "project-share-add" }, whom, name, access, el("button", { type: "button", class: "quiet", on: { click: add } }, icon("plus"), t("projectSharing.add"))));
}

/** Whose it is and what one may do there, for others than its owner. */
export const sharedBy = (project) => el("p", { class: "muted" }, t(`projectSharing.by_${project.access}`, { name: project.owner }));
