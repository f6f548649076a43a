// What an admin of a new server does first, as a card under the greeting: a model that fits, people, and chats from elsewhere. Each step
// says whether it is done. The card stays over the first chats, until all is done or it is closed; the settings show it again.

import { call } from "./api.js";
import { copyText, el, $, icon, toast } from "./dom.js";
import { date, t } from "./i18n.js";
import { emit, on, state } from "./state.js";

const STORED = "first-run"; // on this device: "1": begun, "0": closed
const DEMO = "demo-model";
let link = null; // of the invitation that was made here: {url, until}
let imported = false;
let shownModel = null; // the one that the card speaks of
const isShown = () => Boolean($("first-run"));
on("imported", (report) => {
  imported ||= Boolean(report?.imported);
  if (isShown()) redraw();
});
on("status", () => { if (isShown() && modelName() !== shownModel) redraw(); });

function modelName() { return state.status?.model?.id || ""; }

function stored(value) {
  try {
    if (value !== undefined) localStorage.setItem(STORED, value);
    return localStorage.getItem(STORED);
  } catch { return null; } // private mode
}

function close() {
  stored("0");
  $("first-run")?.remove();
}

async function invite() {
  try {
    const { policy } = await call("GET", "/api/sign-up");
    if (policy === "closed") await call("PATCH", "/api/admin/settings", { sign_up: "invite" });
    const made = await call("POST", "/api/invites", { role: "user", note: "" });
    link = { url: `${location.origin}/#/invite/${made.invite}`, until: date(made.expires_at) };
    redraw();
  } catch (error) { toast(error.message, 5000); }
}

function step({ done, sign, title, text, control }) {
  return el("li", { class: done ? "is-done" : "" }, el("span", { class: "first-run-sign" }, icon(done ? "check" : sign)),
    el("div", { class: "first-run-words" }, el("b", {}, title, done ? el("span", { class: "sr" }, ` – ${t("firstRun.done")}`) : null), el("p", { class: "muted" }, text)), control);
}

async function facts() {
  try {
    const { items } = await call("GET", "/api/users?limit=2");
    return { people: items.length > 1 };
  } catch { return { people: false }; }
}

function steps({ people }) {
  const model = shownModel = modelName();
  const button = (label, run) => el("button", { type: "button", class: "quiet small", on: { click: run } }, label);
  return [
    { done: Boolean(model) && model !== DEMO, sign: "model", title: t("firstRun.model"), text: !model ? t("firstRun.modelNone") : model === DEMO ? t("firstRun.modelDemo") : t("firstRun.modelNow", { model }),
      control: el("a", { class: "quiet small", href: "/admin#/models" }, t("firstRun.modelGo")) },
    { done: people, sign: "share", title: t("firstRun.invite"), text: link ? el("span", {}, t("firstRun.link", { date: link.until }), " ", el("code", { class: "invite-link" }, link.url)) : t("firstRun.inviteText"),
      control: link ? button(t("share.copy"), () => copyText(link.url)) : button(t("firstRun.inviteGo"), invite) },
    { done: imported, sign: "import", title: t("firstRun.import"), text: t("firstRun.importText"), control: button(t("firstRun.importGo"), () => emit("command-import")) },
  ];
}

async function redraw() {
  const all = steps(await facts());
  const open = all.filter((s) => !s.done).length;
  $("first-run")?.remove();
  if (!open) { stored("0"); return; }
  $("suggestions").after(el("section", { id: "first-run", class: "first-run", "aria-labelledby": "first-run-title" },
    el("h3", { id: "first-run-title" }, t("firstRun.title")), el("p", { class: "muted" }, t("firstRun.count", { done: all.length - open, n: all.length })),
    el("ul", {}, ...all.map(step)),
    el("button", { class: "icon-button", type: "button", ariaLabel: t("common.close"), on: { click: close } }, icon("close"))));
}

/** empty: there is no chat yet. */
export function drawFirstRun(empty) {
  if (stored() === null && empty) stored("1");
  if (stored() === "1" && !isShown()) redraw();
}

/** Again, after it was closed. */
export function showFirstRun() {
  stored("1");
  emit("command-new");
  redraw();
}
