// The engine's state in the top bar, and the admin's banner over the chat.

import { call } from "./api.js";
import { drawComposer } from "./composer.js";
import { $ } from "./dom.js";
import { rate } from "./format.js";
import { t } from "./i18n.js";
import { emit, isRunning, state } from "./state.js";

/** Sets a text only where it is another one: what is read aloud would be read again. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function drawStatus() {
  const { engine, model, load } = state.status || {};
  const node = $("engine");
  const ready = engine?.state === "ready";
  node.dataset.state = ready ? "ready" : engine?.state === "loading" ? "loading" : "down";
  say($("engine-words"), !engine ? "" : ready ? model?.name || "" : engine.state === "loading" ? t("page.loading") : t("page.down"));
  const now = ready && load?.running ? rate(load.tokens_per_second) : "";
  say($("engine-rate"), now && ` · ${now}`); // for the eyes: it is another one every two seconds
  node.title = [model?.backend, model?.device, engine?.error].filter(Boolean).join(" · ");
  emit("status");
  const { banner } = state.status || {};
  say($("banner"), banner?.text || "");
  $("banner").dataset.level = banner?.level || "info";
  $("banner").hidden = !banner;
  $("welcome-model").textContent = model?.name ? t("page.listening", { model: model.name }) : "";
  drawComposer();
}

let timer = 0;

async function poll() {
  clearTimeout(timer);
  if (state.user) { // else nobody is signed in who could be told
    try { state.status = await call("GET", "/api/status"); } catch { state.status = { engine: { state: "down" }, model: state.status?.model }; }
    drawStatus();
  }
  clearTimeout(timer); // of a round that ended meanwhile
  if (!document.hidden) timer = setTimeout(poll, isRunning(state.current) || state.status.engine.state !== "ready" ? 2000 : 10000);
}

/** From now on, again and again while the page is looked at: quicker while something is written or the engine is not ready. */
export function startStatus() {
  document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
  poll();
}
