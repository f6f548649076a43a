// Sign-in by an OpenID provider: the button of the login view, what a return from there says, and its part of the account's dialog.

import { call } from "./api.js";
import { $, el } from "./dom.js";
import { date, has, t } from "./i18n.js";

/** The code that a return from the provider left behind the #, which is taken away; "" when one came otherwise. */
export function takeReturn() {
  const code = /^#\/sign-in\/(\w+)$/.exec(location.hash)?.[1] || "";
  if (code) history.replaceState(null, "", "#/");
  return code;
}

export function returnText(code) {
  if (code === "oidc_done") return t("oidc.done");
  return t(has(`serverErrors.${code}`) ? `serverErrors.${code}` : "serverErrors.oidc_failed");
}

/** A plain address: the server sends the browser on from there. */
export async function offerProvider() {
  const link = $("oidc-sign-in");
  try {
    const { policy, name } = await call("GET", "/api/oidc");
    link.hidden = policy === "off";
    link.textContent = t("oidc.signIn", { name: name || "" });
  } catch { link.hidden = true; }
}

function row(item, buttons) {
  return el("li", { data: { key: `${item.issuer} ${item.last_used_at}` } },
    el("span", { class: "grow" }, el("b", {}, item.label || item.issuer), el("br"),
      el("span", { class: "muted" }, item.label ? `${item.issuer} · ` : "", t("oidc.since", { date: date(item.created_at) }))), buttons);
}

/** Of the account's dialog; proof and action as there. Nothing where there is no provider. */
export async function drawProvider(redraw, step, { proof, action }) {
  const [{ policy, name }, { items, has_password: own }] = await Promise.all([call("GET", "/api/oidc"), call("GET", "/api/oidc/identities")]);
  if (policy === "off" && !items.length) return [];
  const unlink = (item) => own && action(t("oidc.unlink"), () => step(proof(t("oidc.unlink"), true, async (password) => {
    await call("POST", "/api/oidc/unlink", { issuer: item.issuer, password });
    redraw();
  })));
  const link = () => action(t("oidc.link", { name }), () => step(proof(t("oidc.link", { name }), false, async (password) => {
    location.assign((await call("POST", "/api/oidc/link", { password })).url);
  })));
  return [items.length ? el("ul", { class: "keys" }, ...items.map((item) => row(item, unlink(item) || ""))) : el("p", { class: "muted" }, t("oidc.text", { name })),
    own ? "" : el("p", { class: "muted" }, t("oidc.noPassword")), own && policy !== "off" && !items.length ? link() : ""];
}
