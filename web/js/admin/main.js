// The admin's page: the frame, and which section is shown (#/overview, #/load, ...). The page holds no secret: every route
// that it calls is checked by the server.
//
// A section is one module: { id, title, open(view, signal) }. open draws into `view`, resolves when it has what it shows, and
// stops what it began (timers, listeners outside of `view`) when `signal` aborts: at the next section.

import { call, setCsrf, setSignedOutHandler } from "../api.js";
import { el, $ } from "../dom.js";
import { whileLoading } from "../skeleton.js";
import { initTheme } from "../theme.js";
import { auditSection } from "./audit.js";
import { checksSection } from "./checks.js";
import { groupsSection } from "./groups.js";
import { jobsSection } from "./jobs.js";
import { loadSection } from "./load.js";
import { logsSection } from "./logs.js";
import { modelsSection } from "./models.js";
import { overviewSection } from "./overview.js";
import { settingsSection } from "./settings.js";
import { statusSection } from "./status.js";
import { upstreamsSection } from "./upstreams.js";
import { usersSection } from "./users.js";
import { t, translatePage } from "../i18n.js";

const GROUPS = [ // [what they are called together, the sections]
  ["", [overviewSection]],
  ["admin.navActivity", [loadSection, jobsSection]],
  ["admin.navModels", [modelsSection, upstreamsSection]],
  ["admin.navPeople", [usersSection, groupsSection, auditSection]],
  ["admin.navServer", [settingsSection, statusSection, checksSection, logsSection]],
];
const SECTIONS = GROUPS.flatMap(([, sections]) => sections);
let leave = null;

function show() {
  const wanted = /^#\/(\w+)/.exec(location.hash)?.[1];
  const section = SECTIONS.find((s) => s.id === wanted) || SECTIONS[0];
  leave?.abort();
  leave = new AbortController();
  for (const link of $("sections").querySelectorAll("a")) {
    if (link.dataset.id === section.id) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else link.removeAttribute("aria-current");
  }
  const view = $("view");
  view.replaceChildren(el("h1", {}, section.title));
  document.title = `${section.title} · Sluice`;
  whileLoading(view, "lines", section.open(view, leave.signal)).catch(() => {}); // it says itself what failed
  if (wanted) view.focus({ preventScroll: true });
  view.scrollTop = 0;
}

function gate(title, text, link) {
  leave?.abort();
  $("admin").hidden = true;
  $("gate").hidden = false;
  $("gate-title").textContent = title;
  $("gate-text").textContent = text;
  $("gate-link").textContent = link;
}

async function start() {
  translatePage();
  initTheme();
  const signedOut = () => gate(t("admin.gateOut"), t("admin.gateOutText"), t("admin.gateSignIn"));
  setSignedOutHandler(signedOut);
  let session;
  try { session = await call("GET", "/api/session"); } catch { signedOut(); return; }
  if (session.user.role !== "admin") { gate(t("admin.gateUser"), t("admin.gateUserText"), t("admin.back")); return; }
  setCsrf(session.csrf);
  $("sections").append(...GROUPS.map(([name, sections]) => el("div", { class: "nav-group" }, name ? el("span", { class: "nav-title" }, t(name)) : null,
    ...sections.map((s) => el("a", { class: "admin-link", href: `#/${s.id}`, data: { id: s.id } }, s.title)))));
  $("admin").hidden = false;
  addEventListener("hashchange", show);
  show();
}
start();
