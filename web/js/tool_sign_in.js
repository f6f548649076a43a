// Signing in at a tool server: a window of its own goes to where accounts are, comes back to this page, and tells the other windows.

import { call } from "./api.js";
import { el, toast } from "./dom.js";
import { has, loadStrings, t } from "./i18n.js";
import { emit } from "./state.js";

await loadStrings();

const PLACE = "tool-sign-in"; // where one was, in a window that went there itself
const channel = new BroadcastChannel("sluice-tools");
const textOf = (code) => t(code === "done" ? "toolServers.signedInNow" : has(`serverErrors.${code}`) ? `serverErrors.${code}` : "serverErrors.tool_sign_in_failed");

/** The name of the host where one is, or would be, signed in. */
export const hostOf = (issuer) => { try { return new URL(issuer).host; } catch { return issuer; } };

/** Opens the window; what comes of it is the event "tool-signed-in" with a code, in every window. */
export async function signIn(server) {
  const there = window.open("about:blank", "_blank"); // at once: later it would be taken for an advertisement
  try {
    const { url } = await call("POST", `/api/tool-servers/${server.id}/sign-in`);
    if (there) { there.location.replace(url); return; }
    sessionStorage.setItem(PLACE, location.hash);
    location.assign(url);
  } catch (error) {
    there?.close();
    throw error;
  }
}

export const signOut = (server) => call("DELETE", `/api/tool-servers/${server.id}/sign-in`);

/** The button, which says what went wrong by `complain`. */
export const signInButton = (server, complain, look = "primary") => el("button", { class: `${look} small`, type: "button", data: { key: "sign-in" }, on: { click: async () => {
  try { await signIn(server); } catch (error) { complain(error); }
} } }, t("toolServers.signIn"));

/** In the window that came back, with a code. */
export function returned(code) {
  const place = sessionStorage.getItem(PLACE);
  sessionStorage.removeItem(PLACE);
  channel.postMessage(code);
  if (place) location.hash = place;
  else window.close(); // where that is not allowed, this is one more window of the page
  toast(textOf(code), 6000);
}

channel.addEventListener("message", ({ data }) => {
  emit("tool-signed-in", data);
  if (data !== "done") toast(textOf(data), 6000);
});
