// Tool servers: which of them this chat uses, and the section of the settings in which they are added, tried, and taken away.

import { call } from "./api.js";
import { confirmDialog, el, icon, toast, sheet } from "./dom.js";
import { date, loadStrings, t } from "./i18n.js";
import { render } from "./render.js";
import { emit, on, state } from "./state.js";
import { hostOf, signInButton, signOut } from "./tool_sign_in.js";

await Promise.all([loadStrings(), sheet("tools")]);

let known = null; // as the server has them; null: not read yet
let mayAdd = false;
const opened = new Set(); // ids of servers whose tools are shown

export async function toolServers() {
  if (!known) {
    try { ({ items: known, may_add: mayAdd } = await call("GET", "/api/tool-servers")); } catch { return []; }
  }
  return known;
}

export function forgetToolServers() { known = null; }

export const chosenServers = () => (state.current?.settings || state.draftSettings)?.tool_servers || [];

/** Turns a server on or off for the chat that is open, or for the one that is begun next. */
export function chooseServer(name, wanted) {
  const others = chosenServers().filter((x) => x !== name);
  const next = wanted ? [...others, name] : others;
  emit("choose-settings", { tool_servers: next.length ? next : null });
}

const field = (label, input, hint) => el("label", {}, el("span", {}, label), input, hint ? el("small", { class: "muted" }, hint) : null);

function toolRow(server, tool, draw, complain) {
  return el("li", { data: { key: `${tool.name} ${tool.always} ${tool.problem || ""}` } },
    el("span", { class: "grow" }, el("b", {}, tool.title || tool.name), tool.destructive ? el("span", { class: "call-warn" }, " ", t("toolServers.destructive")) : null,
      el("span", { class: "tool-about muted", dir: "auto" }, tool.problem ? t("toolServers.problem", { why: tool.problem }) : tool.description || "")),
    tool.always ? el("button", { class: "quiet small", type: "button", on: { click: async () => {
      try { await call("POST", `/api/tool-servers/${server.id}/ask-again`, { tool: tool.name }); forgetToolServers(); await draw(); } catch (error) { complain(error); }
    } } }, t("toolServers.askAgain")) : null);
}

/** Whose account the server's tools run with. */
function accountLine(server, { complain, act }) {
  const at = server.sign_in;
  if (!at || !server.usable) return null;
  const words = at.state === "needed" ? t("toolServers.signInNeeded") : at.state === "more" ? t("toolServers.signInMore") : at.as ? t("toolServers.signedInAs", { name: at.as, host: hostOf(at.issuer) }) : t("toolServers.signedInAt", { host: hostOf(at.issuer) });
  return el("div", { class: "server-account" }, el("span", { class: "grow muted" }, words),
    at.state === "done" ? null : signInButton(server, complain),
    at.state === "needed" ? null : el("button", { class: "quiet small", type: "button", ariaLabel: `${t("toolServers.signOut")}: ${server.name}`, data: { key: "sign-out" }, on: { click: act(() => signOut(server)) } }, t("toolServers.signOut")));
}

function serverRow(server, ui) {
  const n = server.tools.length;
  const { draw, complain, edit } = ui;
  const act = (work) => async () => { try { complain(null); await work(); forgetToolServers(); emit("tool-servers-changed"); await draw(); } catch (error) { complain(error); } };
  const small = (key, name, label, run) => el("button", { class: "icon-button", type: "button", title: label, ariaLabel: `${label}: ${server.name}`, data: { key }, on: { click: run } }, icon(name));
  return el("li", { class: "server", data: { key: JSON.stringify([server.id, server.name, server.enabled, server.usable, server.listed_at, server.sign_in, server.tools.map((x) => x.always)]) } },
    el("div", { class: "server-head" },
      el("span", { class: "grow" }, el("b", {}, server.name), " ", el("span", { class: "badge" }, t(server.everyone ? "toolServers.forEveryone" : "toolServers.own")),
        server.enabled && server.usable ? null : el("span", { class: "badge" }, t("toolServers.off")),
        server.url ? el("span", { class: "tool-about muted" }, server.url) : null),
      ...(server.may_change ? [
        small("refresh", "again", t("toolServers.refresh"), act(async () => { const fresh = await call("POST", `/api/tool-servers/${server.id}/refresh`); toast(t("toolServers.found", { n: fresh.tools.length })); })),
        small("edit", "edit", t("toolServers.edit"), () => edit(server)),
        small("remove", "trash", t("toolServers.remove"), act(async () => { if (await confirmDialog(t("toolServers.removeTitle", { name: server.name }), t("toolServers.removeText"))) await call("DELETE", `/api/tool-servers/${server.id}`); })),
      ] : [])),
    accountLine(server, { complain, act }),
    el("details", { class: "server-tools", open: opened.has(server.id), data: { key: "tools" }, on: { toggle: ({ target }) => { if (target.open) opened.add(server.id); else opened.delete(server.id); } } }, el("summary", {}, icon("chevron"), t("tools.count", { n }), server.listed_at ? el("span", { class: "muted" }, " · ", t("toolServers.listed", { date: date(server.listed_at) })) : null),
      el("ul", { class: "keys" }, ...server.tools.map((tool) => toolRow(server, tool, draw, complain)))));
}

/** The form: a new server, or one that is changed. */
function makeForm(ui) {
  const admin = state.user?.role === "admin";
  const name = el("input", { required: true, maxLength: 24, pattern: "[a-z0-9][a-z0-9_\\-]*", autocapitalize: "none", spellcheck: false, placeholder: t("toolServers.nameExample"), title: t("toolServers.nameRule") });
  const url = el("input", { required: true, type: "url", maxLength: 1000, spellcheck: false, placeholder: t("toolServers.urlExample") });
  const secret = el("input", { type: "password", maxLength: 4096, autocomplete: "off", placeholder: t("toolServers.secretExample") });
  const clientId = el("input", { maxLength: 500, autocomplete: "off", autocapitalize: "none", spellcheck: false });
  const clientSecret = el("input", { type: "password", maxLength: 4096, autocomplete: "off" });
  const client = el("details", { class: "server-client" }, el("summary", {}, icon("chevron"), t("toolServers.client")),
    el("p", { class: "muted" }, t("toolServers.clientText", { url: `${location.origin}/api/tool-sign-in/callback` })),
    el("div", { class: "grid" }, field(t("toolServers.clientId"), clientId), field(t("toolServers.clientSecret"), clientSecret)));
  const everyone = el("input", { type: "checkbox" });
  const enabled = el("input", { type: "checkbox" });
  const save = el("button", { class: "primary" }, t("toolServers.add"));
  const cancel = el("button", { class: "quiet", type: "button", hidden: true, on: { click: () => edit(null) } }, t("common.cancel"));
  const everyoneLine = el("label", { class: "check-line" }, everyone, t("toolServers.everyone"));
  const enabledLine = el("label", { class: "check-line" }, enabled, t("toolServers.enabled"));
  const title = el("h3", {}, t("toolServers.addTitle"));
  let changed = null;
  const edit = (server) => {
    changed = server;
    name.value = server?.name || "";
    url.value = server?.url || "";
    secret.value = "";
    secret.placeholder = server?.has_secret ? t("toolServers.secretKept") : t("toolServers.secretExample");
    clientId.value = server?.client_id || "";
    clientSecret.value = "";
    clientSecret.placeholder = server?.has_client_secret ? t("toolServers.secretKept") : "";
    client.open = Boolean(server?.client_id);
    enabled.checked = server?.enabled ?? true;
    everyone.checked = admin && !ui.mayAdd();
    everyone.disabled = !ui.mayAdd();
    everyoneLine.hidden = Boolean(server) || !admin;
    enabledLine.hidden = !server;
    cancel.hidden = !server;
    title.textContent = server ? t("toolServers.editTitle", { name: server.name }) : t("toolServers.addTitle");
    save.textContent = server ? t("common.save") : t("toolServers.add");
    node.hidden = !server && !admin && !ui.mayAdd();
    if (server) name.focus();
  };
  const body = () => ({ name: name.value.trim(), url: url.value.trim(), ...(secret.value && { secret: secret.value }), ...(clientId.value.trim() !== (changed?.client_id || "") && { client_id: clientId.value.trim() }), ...(clientSecret.value && { client_secret: clientSecret.value }), ...(changed ? { enabled: enabled.checked } : { everyone: everyone.checked }) });
  const node = el("form", { id: "tools-form", class: "server-form", on: { submit: async (event) => {
    event.preventDefault();
    save.disabled = true;
    try {
      ui.complain(null);
      const made = await call(changed ? "PATCH" : "POST", changed ? `/api/tool-servers/${changed.id}` : "/api/tool-servers", body());
      toast(made.sign_in?.state === "needed" ? t("toolServers.addedSignIn") : t("toolServers.found", { n: made.tools.length }));
      forgetToolServers();
      emit("tool-servers-changed");
      edit(null);
      await ui.draw();
    } catch (error) { ui.complain(error); } finally { save.disabled = false; }
  } } }, title, el("div", { class: "grid" }, field(t("toolServers.name"), name), field(t("toolServers.secret"), secret, t("toolServers.secretHint"))), field(t("toolServers.url"), url, admin ? t("toolServers.urlHint") : ""), client, everyoneLine, enabledLine,
  ui.problem, el("div", { class: "dialog-row" }, cancel, save));
  return { node, edit };
}

let redraw = null; // of the section, once it was opened
on("tool-signed-in", () => { forgetToolServers(); redraw?.(); });

/** The section of the settings window. */
export async function draw(panel) {
  const rows = el("ul", { class: "keys servers" });
  const problem = el("p", { class: "form-error", role: "alert", hidden: true });
  const ui = { problem, mayAdd: () => mayAdd, complain: (error) => { problem.textContent = error?.message || ""; problem.hidden = !error; }, draw: async () => {
    const all = await toolServers();
    render(rows, ...all.map((server) => serverRow(server, ui)));
    if (!all.length) render(rows, el("li", { class: "muted", data: { key: "none" } }, t(mayAdd || state.user?.role === "admin" ? "toolServers.none" : "toolServers.noneYet")));
  } };
  forgetToolServers();
  await toolServers();
  const { node: form, edit } = makeForm(ui);
  ui.edit = edit;
  panel.append(el("p", { class: "muted" }, t("toolServers.intro")), rows, form);
  edit(null);
  await ui.draw();
  redraw = () => { if (rows.isConnected) ui.draw(); };
}
