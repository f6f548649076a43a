// Passkeys: what the browser's authenticators are asked, and what the server is told of their answers.

import { call } from "./api.js";
import { t } from "./i18n.js";

const bytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const known = (list) => list.map((c) => ({ ...c, id: bytes(c.id) }));

/** Whether this browser has them, here. */
export const passkeysWork = () => typeof PublicKeyCredential === "function" && Boolean(navigator.credentials);

/** What an authenticator did not do, in words for people. */
function explain(error) {
  if (error.name === "NotAllowedError") return new Error(t("passkeys.cancelled"));
  if (error.name === "InvalidStateError") return new Error(t("passkeys.already"));
  return error instanceof DOMException ? new Error(t("passkeys.failed")) : error;
}

/** Makes one and registers it under this name. */
export async function makePasskey(name) {
  const options = await call("POST", "/api/passkeys/options");
  let made;
  try {
    made = await navigator.credentials.create({ publicKey: { ...options, challenge: bytes(options.challenge),
      user: { ...options.user, id: bytes(options.user.id) }, excludeCredentials: known(options.excludeCredentials) } });
  } catch (error) { throw explain(error); }
  const { response } = made;
  if (!response.getAuthenticatorData) throw new Error(t("passkeys.oldBrowser"));
  await call("POST", "/api/passkeys", { name, passkey: { id: made.id, response: { clientDataJSON: text(response.clientDataJSON),
    authenticatorData: text(response.getAuthenticatorData()), transports: response.getTransports?.() ?? [] } } });
}

/** Asks one to answer the challenge that `where` gives; what it says is for the server. */
export async function askPasskey(where) {
  const options = await call("POST", where);
  let said;
  try {
    said = await navigator.credentials.get({ publicKey: { ...options, challenge: bytes(options.challenge), allowCredentials: known(options.allowCredentials) } });
  } catch (error) { throw explain(error); }
  const { clientDataJSON, authenticatorData, signature, userHandle } = said.response;
  return { id: said.id, response: { clientDataJSON: text(clientDataJSON), authenticatorData: text(authenticatorData), signature: text(signature),
    ...(userHandle ? { userHandle: text(userHandle) } : {}) } };
}
