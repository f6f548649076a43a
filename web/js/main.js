// Start, log-in, routes (#/ and #/c/ID), and what each event does. One way: events -> api -> state -> views.

import { initActions } from "./actions.js";
import { answers, remember } from "./ahead.js";
import { takeFiles } from "./attach.js";
import { call, hasCsrf, setAhead, setCsrf, setSignedOutHandler } from "./api.js";
import { leaveAll, resume, stopAnswer } from "./answer.js";
import { drawComposer, focusComposer, forgetDrafts, keepDraft, takeDraft } from "./composer.js";
import { $, openMenu, toast } from "./dom.js";
import { narrow, showSidebar, sidebarShown } from "./drawer.js";
import { initHeader } from "./header.js";
import { clearMarks, goToMessage } from "./found.js";
import { readConversation, readTexts } from "./history.js";
import { t, translatePage } from "./i18n.js";
import { forgetTag, startLive } from "./live.js";
import { initLogin, invitation, loginReturn, showLogin, showSignUp } from "./login.js";
import { loadMarkdown } from "./markdown.js";
import { returnText, takeReturn } from "./oidc.js";
import "./add_menu.js";
import "./commands.js";
import "./model_menu.js";
import "./meter.js";
import "./queue.js";
import "./suggestions.js";
import { showProjects } from "./project_doors.js";
import { placeOf, post } from "./sending.js";
import { keysOf, shownKeysOf } from "./shortcuts.js";
import { runCommand } from "./slash.js";
import { drawList, loadConversations, refreshList, titleInList, touchConversation } from "./sidebar.js";
import { stopWaiting, whileLoading } from "./skeleton.js";
import { emit, isRunning, leafUnder, ofItsModel, on, showLeaf, state } from "./state.js";
import { startStatus } from "./status.js";
import { initTheme } from "./theme.js";
import { drawThread, forgetViews, scrollToEnd } from "./thread.js";

const app = $("app");

// --- conversations --------------------------------------------------------------------------------------------------

function drawTitle() {
  $("title").textContent = state.temporary ? t("header.temporary") : state.current?.title || t("common.newChat");
  document.title = state.current?.title ? `${state.current.title} · Sluice` : "Sluice";
}

function drawAll() {
  drawTitle();
  drawThread();
  drawComposer();
  drawList();
}

function closeCurrent() {
  state.visit++;
  stopWaiting($("scroller"));
  keepDraft();
  leaveAll();
  emit("stop-temporary");
  forgetViews();
  state.current = null;
  state.temporary = false;
}

/** While a chat is on its way nothing says that another one, or a new one, is shown. */
function opening(id) {
  document.querySelector(".main").classList.remove("is-new");
  $("title").textContent = titleInList(id) || "…";
}

async function openConversation(id, messageId) {
  closeCurrent();
  takeDraft(id); // at once: what is typed while it loads is for it
  const mine = state.visit;
  try {
    const [conversation] = await whileLoading($("scroller"), "thread", Promise.all([readConversation(id), loadMarkdown()]), () => opening(id));
    if (state.visit !== mine) return;
    state.current = conversation;
    forgetTag();
    drawAll();
    if (messageId) showFound(messageId);
    else scrollToEnd();
    for (const m of conversation.messages.values()) if (m.status === "running") resume(m);
    readTexts(conversation);
  } catch (error) {
    if (state.visit !== mine || error.status === 401) return; // signed out: it is opened after signing in
    toast(error.status === 404 ? t("page.gone") : error.message);
    location.hash = "#/";
  }
}

/** To a message, with the words marked by which the list found it. */
function showFound(messageId) {
  const words = state.found?.id === messageId ? state.found.text : "";
  state.found = null;
  goToMessage(messageId, words);
}

function openNew() {
  closeCurrent();
  state.project = /^#\/p\/(\d+)$/.exec(location.hash)?.[1];
  state.draftSettings = {};
  takeDraft("");
  drawAll();
}

/** #settings/SECTION opens the settings over the chat that is shown, whose place stays in the address. */
function settingsLink(before) {
  const [link, section] = /^#settings(?:\/(\w+))?$/.exec(location.hash) || [];
  if (!link) return false;
  history.replaceState(null, "", before || "#/");
  emit("open-settings", section);
  return true;
}

function route() {
  if (narrow.matches) showSidebar(false);
  const { id, messageId } = placeOf(location.hash);
  clearMarks();
  if (id && state.current?.id === id) {
    if (messageId) showFound(messageId);
    return;
  }
  if (id) openConversation(id, messageId);
  else openNew();
  if (!messageId) focusComposer();
}

on("temporary", (wanted) => {
  if (state.current) openNew();
  state.temporary = wanted;
  emit("temporary-changed");
  drawTitle();
  focusComposer();
});
on("send-queued", ({ content, files }) => post({ content, parent_id: state.current.leaf_id || null }, content, files));

on("command-new", () => { location.hash = "#/"; route(); });
const openImport = async () => (await import("./import.js")).importDialog();
on("command-import", openImport);
on("command-export", () => withExport((m) => m.exportDialog()));
on("send", (content) => { if (!runCommand(content)) post({ content, parent_id: state.current?.leaf_id || null }, content, takeFiles()); });
on("edit-message", async ({ message, content, attachments, failed }) => { if (!await post({ content, parent_id: message.parent_id || null, attachments })) failed(); });
on("regenerate", (message) => { if (!isRunning(state.current)) post({ regenerate: message.id, ...ofItsModel(message) }); });
on("choose-version", (message) => {
  const conversation = state.current;
  const leaf = leafUnder(conversation, message).id;
  if (conversation.temporary) { showLeaf(conversation, leaf); drawThread(); return; }
  showLeaf(conversation, leaf, call("PATCH", `/api/conversations/${conversation.id}`, { leaf_id: leaf })); // else kept by the next message
  drawThread();
});
on("stop", async () => {
  if (state.current?.temporary) { emit("stop-temporary"); return; }
  if (state.current) state.current.stops = (state.current.stops || 0) + 1; // models that are about to be asked (compare.js)
  for (const m of state.current?.messages.values() || []) {
    if (m.status === "running") try { await stopAnswer(m); } catch (error) { toast(error.message); }
  }
});
on("title", drawTitle);
on("titled", (conversation) => {
  touchConversation(conversation, false);
  if (state.current?.id === conversation.id) drawTitle();
});
on("thread-changed", () => { drawThread(); drawComposer(); });
on("tool-results", ({ message, results }) => post({ tool_results: results, parent_id: message.id }));
for (const name of ["conversation-made", "list-changed"]) on(name, refreshList);
on("conversation-gone", (id) => { if (state.current?.id === id) { toast(t("page.gone")); location.hash = "#/"; } });
/** What is shown is read anew and drawn in place: something was taken away, or changed under us. */
on("reload-conversation", async () => {
  const conversation = state.current;
  if (!conversation || conversation.temporary) return;
  try {
    const now = await call("GET", `/api/conversations/${conversation.id}`);
    if (state.current !== conversation || isRunning(conversation)) return;
    const old = conversation.messages;
    conversation.messages = new Map(now.messages.map((m) => [m.id, m]));
    Object.assign(conversation, { leaf_id: now.leaf_id, title: now.title, settings: now.settings || {}, updated_at: now.updated_at });
    const same = (a, b) => b && a.content === b.content && a.reasoning === b.reasoning && a.status === b.status;
    const changed = [...old.values()].filter((m) => conversation.messages.has(m.id) && !same(m, conversation.messages.get(m.id)));
    forgetTag();
    drawTitle();
    drawThread();
    emit("texts", changed.map((m) => m.id)); // only these are drawn anew: what is being typed elsewhere stays
    drawComposer();
    for (const m of conversation.messages.values()) if (m.status === "running") resume(m);
  } catch (error) { toast(error.message); }
});

// --- frame ----------------------------------------------------------------------------------------------------------

$("new-chat").addEventListener("click", () => frame.openNew());
$("account").addEventListener("click", () => openMenu($("account"), [
  { label: t("account.settings"), icon: "gear", keys: shownKeysOf(keysOf("settings")), run: () => emit("open-settings") },
  { label: t("account.help"), icon: "keyboard", run: () => emit("open-settings", "keyboard") },
  ...(state.user?.role === "admin" ? [{ label: t("page.admin"), icon: "admin", run: () => location.assign("/admin") }] : []),
  { label: t("account.signOut"), icon: "out", run: signOut },
]));
on("imported", () => loadConversations());
on("share", async (c) => (await import("./share.js")).shareDialog(c));
on("list-read", (empty) => { if (state.user?.role === "admin") import("./first_run.js").then((m) => m.drawFirstRun(empty && $("projects").hidden), () => { /* without a network */ }); });
async function withExport(use) {
  try { use(await import("./export.js")); } catch { toast(t("errors.unreachable")); }
}
on("suggestion", (content) => post({ content, parent_id: null }));

const frame = { openNew: () => { location.hash = "#/"; route(); }, showSidebar, sidebarShown };
initActions(frame);
initHeader(frame);

// --- who -----------------------------------------------------------------------------------------------------------

function signedOut() {
  if (!$("login").hidden) return; // it is being typed in
  state.user = null; // nothing is asked any more
  remember(false);
  leaveAll();
  app.hidden = true;
  showLogin();
}

const forgetKept = () => globalThis.caches?.delete("read").catch(() => {}); // sw.js

/** Of who was here before nothing stays in this tab. */
async function beginAnew() {
  await forgetKept();
  remember(false); // before the page begins anew, which would ask ahead for a chat
  closeCurrent();
  forgetDrafts();
  history.replaceState(null, "", "#/");
  location.reload();
}

on("account-gone", beginAnew);
// A page that began without a network has no token, which is not kept.
on("reach", async (reach) => { if (!reach && state.user && !hasCsrf()) try { setCsrf((await call("GET", "/api/session")).csrf); } catch { /* the next time */ } });

let whose = null; // the id of the user who was signed in last
let started = false;
function showApp(session) {
  if (whose && whose !== session.user.id) { beginAnew(); return; }
  if (whose) closeCurrent(); // it is read again: much may have happened
  whose = session.user.id;
  setCsrf(session.csrf);
  remember(true);
  state.user = session.user;
  state.preferences = session.preferences || {};
  emit("preferences");
  $("login").hidden = true;
  app.hidden = false;
  $("account-name").textContent = session.user.name;
  $("account-letter").textContent = session.user.name.slice(0, 1);
  let side = "1";
  try { side = localStorage.getItem("sidebar") || "1"; } catch { /* private mode */ }
  showSidebar(!narrow.matches && side === "1");
  loadConversations();
  showProjects();
  if (!started) { startStatus(); startLive(); }
  started = true;
  if (navigator.serviceWorker?.controller) import("./offline.js").then((m) => m.refreshOffline(), () => {});
  settingsLink("#/");
  route();
}

async function signOut() {
  await forgetKept(); // first, and without a network too
  try { await call("POST", "/api/logout"); } catch (error) {
    if (error.status !== 401) { toast(error.message, 5000); return; } // 401: the session was gone already
  }
  beginAnew();
}

async function start() {
  translatePage();
  initTheme();
  setSignedOutHandler(signedOut);
  initLogin(showApp);
  const back = takeReturn();
  const tools = /^#\/tool-sign-in\/(\w+)$/.exec(location.hash)?.[1];
  if (tools) history.replaceState(null, "", "#/");
  setAhead(answers);
  if (invitation()) showSignUp();
  else try { showApp(await call("GET", "/api/session")); } catch { signedOut(); }
  setAhead(null); // they are answers to who was signed in then
  if (back && app.hidden) loginReturn(back);
  else if (back) toast(returnText(back), 6000);
  if (tools) import("./tool_sign_in.js").then((m) => m.returned(tools), () => {});
  $("splash").hidden = true;
  $("composer-text").addEventListener("input", () => loadMarkdown(), { once: true }); // not needed to paint, but by the first answer
  addEventListener("hashchange", ({ oldURL }) => {
    if (!app.hidden && settingsLink(new URL(oldURL).hash)) return;
    if (!invitation()) { route(); return; }
    app.hidden = true;
    showSignUp();
  });
}
start();
