// Why no answer can be asked for now: no network, a server that does not answer, no model, one that is loading, one that hangs.

import { has, t } from "./i18n.js";
import { state } from "./state.js";

/** What keeps an answer from being asked for, as {short, long}; null: nothing. */
export function trouble() {
  if (state.reach) return { short: t(`page.${state.reach}`), long: t(`errors.${state.reach}`) };
  const engine = state.status?.engine;
  const reason = engine && (engine.reason ?? (engine.state === "ready" ? null : "engine_unavailable"));
  if (!reason) return null;
  return { short: t(has(`page.state_${reason}`) ? `page.state_${reason}` : "page.down"), long: t(`serverErrors.${reason}`), reason };
}
