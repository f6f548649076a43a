// Signing in: name and password, the code of a second factor, and accounts that people make themselves.

import { call } from "./api.js";
import { $ } from "./dom.js";
import { date, t } from "./i18n.js";
import { offerProvider, returnText } from "./oidc.js";
import { askPasskey, passkeysWork } from "./passkeys.js";

let signedIn = () => {};
let byProvider = false;

/** The token of an invitation's link; it stands behind the #, so that no server's log ever has it. */
export const invitation = () => /^#\/invite\/([\w-]+)$/.exec(location.hash)?.[1] || "";

function show(form) {
  $("login").hidden = false;
  for (const id of ["login-form", "sign-up-form"]) $(id).hidden = id !== form;
}

/** field: what is to be typed again. It has the focus then, and the reason as its description. */
function fail(node, error, field = null) {
  node.textContent = error.message;
  node.hidden = false;
  if (!field) return;
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", node.id);
  field.addEventListener("input", () => { for (const name of ["aria-invalid", "aria-describedby"]) field.removeAttribute(name); }, { once: true });
  field.focus();
  field.select();
}

function askForCode(ask) {
  $("login-code-row").hidden = !ask;
  $("login-code").required = ask;
  if (!ask) $("login-code").value = "";
}

/** After a provider's sign-in only the code of the second factor is asked for. */
function askAfterProvider(ask) {
  byProvider = ask;
  for (const id of ["login-name", "login-password"]) {
    $(id).required = !ask;
    $(id).closest("label").hidden = ask;
  }
  askForCode(ask);
}

/** What a return from the provider asks or says over the login. */
export function loginReturn(code) {
  askAfterProvider(code === "oidc_code");
  if (byProvider) $("login-code").focus();
  else fail($("login-error"), { message: returnText(code) });
}

export async function showLogin() {
  askAfterProvider(false);
  $("login-password").value = "";
  show("login-form");
  $("login-name").focus();
  offerProvider();
  try {
    const { policy, passkeys } = await call("GET", "/api/sign-up");
    $("sign-up-open").hidden = policy !== "open";
    $("login-passkey").hidden = !(passkeys.available && passkeysWork());
  } catch {
    $("sign-up-open").hidden = true;
    $("login-passkey").hidden = true;
  }
}

/** The form for a new account. With an invitation it says first whether that is still good. */
export async function showSignUp() {
  const token = invitation();
  const problem = $("sign-up-error");
  $("sign-up-form").reset();
  problem.hidden = true;
  $("sign-up-text").textContent = t("login.newText");
  askForAccount(true);
  show("sign-up-form");
  $("sign-up-name").focus();
  if (!token) return;
  try {
    const { role, expires_at } = await call("POST", "/api/sign-up/invite", { invite: token });
    $("sign-up-text").textContent = t(role === "admin" ? "login.invitedAdmin" : "login.invited", { date: date(expires_at) });
  } catch (error) {
    fail(problem, error);
    if (error.status >= 400 && error.status < 500 && error.status !== 429) askForAccount(false); // it will not be taken, whatever is typed
  }
}

/** Whether there is anything to fill in. */
function askForAccount(ask) {
  for (const node of $("sign-up-form").querySelectorAll("label, .primary, #sign-up-text")) node.hidden = !ask;
}

function enter(session) {
  askAfterProvider(false);
  $("login-password").value = "";
  $("login").hidden = true;
  signedIn(session);
}

async function signInByPasskey() {
  const problem = $("login-error");
  problem.hidden = true;
  try {
    const passkey = await askPasskey("/api/login/passkey/options");
    enter(await call("POST", "/api/login/passkey", { passkey }));
  } catch (error) { fail(problem, error); }
}

async function signIn(event) {
  event.preventDefault();
  const problem = $("login-error");
  const body = { name: $("login-name").value, password: $("login-password").value };
  if ($("login-code").value) body.code = $("login-code").value.trim();
  problem.hidden = true;
  try {
    enter(byProvider ? await call("POST", "/api/oidc/code", { code: body.code || "" }) : await call("POST", "/api/login", body));
  } catch (error) {
    if (error.code === "second_factor_needed") {
      askForCode(true);
      $("login-code").focus();
      return;
    }
    if (error.code === "oidc_state") askAfterProvider(false);
    fail(problem, error, $(byProvider || error.param === "code" ? "login-code" : "login-password"));
  }
}

async function signUp(event) {
  event.preventDefault();
  const problem = $("sign-up-error");
  const body = { name: $("sign-up-name").value.trim(), password: $("sign-up-password").value };
  if (invitation()) body.invite = invitation();
  problem.hidden = true;
  if (body.password !== $("sign-up-again").value) {
    fail(problem, { message: t("login.differ") }, $("sign-up-again"));
    return;
  }
  try {
    const session = await call("POST", "/api/sign-up", body);
    $("sign-up-form").reset();
    history.replaceState(null, "", "#/"); // the link is used up
    $("login").hidden = true;
    signedIn(session);
  } catch (error) { fail(problem, error, error.param === "password" ? $("sign-up-password") : error.param === "name" ? $("sign-up-name") : null); }
}

/** done: gets the session {user, csrf} of whoever has come in. */
export function initLogin(done) {
  signedIn = done;
  $("login-form").addEventListener("submit", signIn);
  $("login-passkey").addEventListener("click", signInByPasskey);
  $("sign-up-form").addEventListener("submit", signUp);
  $("sign-up-open").addEventListener("click", showSignUp);
  $("sign-up-back").addEventListener("click", () => {
    history.replaceState(null, "", "#/");
    location.reload(); // whoever is signed in stays so
  });
}
