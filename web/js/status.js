// The engine's state in the top bar, and the admin's banner over the chat. No network, a server that does not answer, no model, one
// that is loading and one that hangs are different troubles, and each says what to do.

import { call } from "./api.js";
import { drawComposer } from "./composer.js";
import { el, $ } from "./dom.js";
import { rate } from "./format.js";
import { t } from "./i18n.js";
import { emit, isRunning, state } from "./state.js";
import { loadingWords, trouble } from "./trouble.js";

/** Sets a text only where it is another one: what is read aloud would be read again. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** The text of the top bar: the model's name, or what is wrong. */
export function statusWords() {
  return loadingWords() || (trouble()?.short ?? state.status?.model?.name ?? "");
}

function drawWelcome() {
  const model = state.status?.model?.name;
  const why = trouble();
  const load = why?.reason === "model_unloaded" && state.user?.role === "admin";
  const words = load ? t("page.noModelYet") : why ? why.long : model ? t("page.listening", { model }) : "";
  if ($("welcome-model").dataset.words === words) return;
  $("welcome-model").dataset.words = words;
  $("welcome-model").replaceChildren(words, ...(load ? [" ", el("a", { href: "/admin#/models" }, t("page.loadModel"))] : []));
}

function drawStatus() {
  const { engine, model, load } = state.status || {};
  const node = $("engine");
  const why = trouble();
  const ready = engine?.state === "ready" && !why;
  node.dataset.state = ready ? "ready" : !state.reach && engine?.state === "loading" ? "loading" : "down";
  say($("engine-words"), statusWords());
  const now = ready && load?.running ? rate(load.tokens_per_second) : "";
  say($("engine-rate"), now && ` · ${now}`); // for the eyes: it is another one every two seconds
  node.title = why?.long ?? [model?.backend, model?.device].filter(Boolean).join(" · ");
  emit("status");
  const { banner } = state.status || {};
  say($("banner"), banner?.text || "");
  $("banner").dataset.level = banner?.level || "info";
  $("banner").hidden = !banner;
  drawWelcome();
  drawComposer();
}

let timer = 0;

/** How far the server is away: "" it answers, "offline", "unreachable". */
function setReach(reach) {
  const before = state.reach;
  state.reach = reach;
  if (before !== reach) emit("reach", reach);
}

async function poll() {
  clearTimeout(timer);
  if (state.user) { // else nobody is signed in who could be told
    try {
      state.status = await call("GET", "/api/status");
      setReach("");
    } catch (error) {
      setReach(error.status === 401 ? "" : navigator.onLine === false ? "offline" : "unreachable");
    }
    drawStatus();
  }
  clearTimeout(timer); // of a round that ended meanwhile
  if (!document.hidden) timer = setTimeout(poll, isRunning(state.current) || loadingWords() || trouble() ? 2000 : 10000);
}

/** From now on, again and again while the page is looked at: quicker while something is written or the engine is not ready. */
export function startStatus() {
  document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
  addEventListener("online", poll);
  addEventListener("offline", () => { setReach("offline"); drawStatus(); });
  poll();
}
