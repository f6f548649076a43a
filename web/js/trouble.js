// Why no answer can be asked for now: no network, a server that does not answer, no model, one that is loading, one that hangs.

import { has, t } from "./i18n.js";
import { state } from "./state.js";

/** The name of the chat's model, where it is not the first one. */
const otherModel = () => (state.current?.settings || state.draftSettings)?.model;

/** That the chat's model is being loaded; "": it is not. */
export function loadingWords() {
  return state.status?.loading?.includes(otherModel()) ? t("page.state_model_loading") : "";
}

/** What keeps an answer from being asked for, as {short, long}; null: nothing. */
export function trouble() {
  if (state.reach) return { short: t(`page.${state.reach}`), long: t(`errors.${state.reach}`) };
  if (otherModel()) return null; // it may answer all the same
  const engine = state.status?.engine;
  const reason = engine && (engine.reason ?? (engine.state === "ready" ? null : "engine_unavailable"));
  if (!reason) return null;
  return { short: t(has(`page.state_${reason}`) ? `page.state_${reason}` : "page.down"), long: t(`serverErrors.${reason}`), reason };
}
