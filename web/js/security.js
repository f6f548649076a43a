// One's own account, a section of the settings window: its password, where it is signed in, its second factor, its end.

import { call } from "./api.js";
import { copyText, el, rounds, toast } from "./dom.js";
import { date, loadStrings, t } from "./i18n.js";
import { drawProvider } from "./oidc.js";
import { makePasskey, passkeysWork } from "./passkeys.js";
import { render } from "./render.js";
import { emit } from "./state.js";

await loadStrings();

const when = (ms) => date(ms, { dateStyle: "medium", timeStyle: "short" });

/** A form that asks for the password before something is done; whose account has none confirms in another way. */
function proof(button, danger, run) {
  const problem = el("p", { class: "form-error", role: "alert", hidden: true });
  const password = el("input", { type: "password", autocomplete: "current-password", required: true });
  const row = el("label", {}, el("span", {}, t("login.password")), password);
  call("GET", "/api/session/confirm").then((can) => {
    row.hidden = !can.password;
    password.required = can.password;
  }, () => {}); // then the password is asked for, and the server says the rest
  return el("form", { class: "proof", on: { submit: async (event) => {
    event.preventDefault();
    problem.hidden = true;
    try { await run(password.value || undefined); } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      password.select();
    }
  } } }, row, problem, el("div", { class: "dialog-row" }, el("button", { class: danger ? "danger" : "primary" }, button)));
}

function action(label, run, kind = "quiet") {
  return el("button", { type: "button", class: `${kind} small`, data: { key: label }, on: { click: run } }, label);
}

/** Resolves to a part of the section, once it is drawn: draw(redraw, step) gives what it shows; step(...nodes) is what a press of a button leads to. */
function part(id, title, draw) {
  const body = el("div", {});
  const begin = rounds();
  const step = (...nodes) => {
    begin(); // a drawing under way would take it away again
    render(body, ...nodes);
    body.querySelector("input")?.focus();
    body.lastElementChild?.scrollIntoView({ block: "nearest" }); // with the button that comes after
  };
  const redraw = async () => {
    const counts = begin();
    try {
      const nodes = [await draw(redraw, step) ?? []].flat();
      if (!counts()) return;
      render(body, ...nodes);
      section.hidden = !nodes.length;
    } catch (error) { if (counts()) render(body, el("p", { class: "form-error", role: "alert" }, error.message)); }
  };
  const section = el("section", { class: "security-part", data: { part: id } }, el("h4", {}, title), body);
  return redraw().then(() => section);
}

// --- the password ---------------------------------------------------------------------------------------------------

function passwordForm(redraw) {
  const problem = el("p", { class: "form-error", role: "alert", hidden: true });
  const field = (name, label, more) => el("label", {}, el("span", {}, t(label)), el("input", { name, type: "password", required: true, ...more }));
  const form = el("form", { id: "password-form", class: "proof", on: { submit: async (event) => {
    event.preventDefault();
    problem.hidden = true;
    try {
      await call("POST", "/api/password", { current: form.current.value, new: form.new.value, revoke_keys: form.keys.checked });
      toast(t("password.changed"));
      redraw();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    }
  } } }, field("current", "password.current", { autocomplete: "current-password" }), field("new", "password.new", { autocomplete: "new-password", minLength: 8 }),
  el("label", { class: "check-line" }, el("input", { name: "keys", type: "checkbox" }), el("span", {}, t("password.revokeKeys"))), problem,
  el("div", { class: "dialog-row" }, el("button", { type: "button", class: "quiet", on: { click: redraw } }, t("common.cancel")), el("button", { class: "primary" }, t("password.change"))));
  return form;
}

async function drawPassword(redraw, step) {
  const { password } = await call("GET", "/api/session/confirm"); // whose account has none signs in otherwise
  return password ? [action(t("password.title"), () => step(passwordForm(redraw)))] : [];
}

// --- where one is signed in -----------------------------------------------------------------------------------------

// The first that stands in the line of a user agent counts: later ones are named there by imitators.
const BROWSERS = [/Edg/, /OPR/, /Firefox/, /Chrome/, /Safari/, /curl/, /python/, /node/];
const SYSTEMS = [/Android/, /iPhone/, /iPad/, /Windows/, /Mac OS X/, /CrOS/, /Linux/];
const KNOWN_AS = { Edg: "Edge", OPR: "Opera", "Mac OS X": "macOS", CrOS: "ChromeOS" };

/** "Firefox, Linux": of a user agent's line what people know; else its beginning. */
export function deviceName(agent) {
  const find = (words) => words.find((word) => word.test(agent))?.source;
  const names = [find(BROWSERS), find(SYSTEMS)].filter(Boolean).map((word) => KNOWN_AS[word] || word);
  return names.join(", ") || agent.slice(0, 40) || t("security.unknownDevice");
}

/** The list of sessions at `path`, each with a button that ends it. */
export function sessionList(items, path, redraw) {
  return el("ul", { class: "keys" }, ...items.map((s) => el("li", { data: { key: s.id } },
    el("span", { class: "grow" }, el("b", { title: s.agent }, deviceName(s.agent)),
      el("span", { class: "muted" }, ` ${s.address}`), el("br"),
      el("span", { class: "muted" }, t("security.seen", { from: when(s.created_at), last: when(s.last_used_at) }))),
    s.current ? el("span", { class: "badge" }, t("security.here"))
      : el("button", { type: "button", class: "quiet small", data: { key: "end" }, ariaLabel: t("security.endOf", { device: deviceName(s.agent) }), on: { click: async () => {
        try { await call("DELETE", `${path}/${s.id}`); } catch (error) { toast(error.message); }
        redraw();
      } } }, t("security.end")))));
}

async function drawSessions(redraw) {
  const { items } = await call("GET", "/api/sessions");
  const others = items.some((s) => !s.current);
  return [sessionList(items, "/api/sessions", redraw), others ? action(t("security.endOthers"), async () => {
    try { await call("DELETE", "/api/sessions"); toast(t("security.ended")); } catch (error) { toast(error.message); }
    redraw();
  }) : ""];
}

// --- the second factor ----------------------------------------------------------------------------------------------

function qrCode({ size, path }) {
  const make = (tag, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const svg = make("svg", { class: "qr", viewBox: `-4 -4 ${size + 8} ${size + 8}`, role: "img", "aria-label": t("security.qr") });
  svg.append(make("rect", { x: -4, y: -4, width: size + 8, height: size + 8, fill: "#fff" }), make("path", { d: path, fill: "#000" }));
  return svg;
}

function recoveryCodes(codes, done) {
  return [el("p", {}, t("security.codesText")), el("pre", { class: "codes" }, codes.join("\n")),
    el("div", { class: "dialog-row" }, action(t("security.copyCodes"), () => copyText(codes.join("\n"))), action(t("security.codesKept"), done, "primary"))];
}

function confirmForm(secret, redraw, step) {
  const problem = el("p", { class: "form-error", role: "alert", hidden: true });
  const code = el("input", { inputMode: "numeric", autocomplete: "one-time-code", required: true, pattern: "[0-9 ]{6,7}" });
  return el("form", { class: "proof", on: { submit: async (event) => {
    event.preventDefault();
    problem.hidden = true;
    try {
      const { recovery_codes: codes } = await call("POST", "/api/second-factor/confirm", { code: code.value.replaceAll(" ", "") });
      step(...recoveryCodes(codes, redraw));
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      code.select();
    }
  } } }, el("p", {}, t("security.scan")), qrCode(secret.qr),
  el("p", { class: "muted" }, t("security.byHand"), " ", el("code", { class: "secret" }, secret.secret.match(/.{4}/g).join(" "))),
  el("label", {}, el("span", {}, t("security.appCode")), code), problem,
  el("div", { class: "dialog-row" }, el("button", { class: "primary" }, t("security.turnOn"))));
}

async function drawFactor(redraw, step) {
  const factor = await call("GET", "/api/second-factor");
  if (!factor.on) {
    return [el("p", { class: "muted" }, t("security.factorText")), action(t("security.setUp"), () => step(proof(t("security.next"), false, async (password) => {
      step(confirmForm(await call("POST", "/api/second-factor", { password }), redraw, step));
    })))];
  }
  return [el("p", {}, t("security.factorOn", { date: date(factor.confirmed_at) }), " ", t("security.codesLeft", { n: factor.recovery_codes })),
    el("div", { class: "row" },
      action(t("security.newCodes"), () => step(proof(t("security.newCodes"), false, async (password) => {
        step(...recoveryCodes((await call("POST", "/api/second-factor/recovery-codes", { password })).recovery_codes, redraw));
      }))),
      action(t("security.turnOff"), () => step(proof(t("security.turnOff"), true, async (password) => {
        await call("POST", "/api/second-factor/remove", { password });
        redraw();
      }))))];
}

// --- passkeys -------------------------------------------------------------------------------------------------------

function passkeyForm(redraw) {
  const problem = el("p", { class: "form-error", role: "alert", hidden: true });
  const name = el("input", { id: "passkey-name", required: true, maxLength: 64, autocomplete: "off", value: deviceName(navigator.userAgent) });
  return el("form", { class: "proof", on: { submit: async (event) => {
    event.preventDefault();
    problem.hidden = true;
    try {
      await makePasskey(name.value.trim());
      toast(t("passkeys.made"));
      redraw();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    }
  } } }, el("label", {}, el("span", {}, t("passkeys.name")), name), problem,
  el("div", { class: "dialog-row" }, el("button", { class: "primary" }, t("passkeys.make"))));
}

async function drawPasskeys(redraw, step) {
  const { items, available, reason } = await call("GET", "/api/passkeys");
  if (!items.length && reason === "passkeys_off") return [];
  const list = el("ul", { class: "keys passkeys" }, ...items.map((p) => el("li", { data: { key: p.id } },
    el("span", { class: "grow" }, el("b", {}, p.name), el("br"), el("span", { class: "muted" },
      p.last_used_at ? t("passkeys.used", { from: date(p.created_at), last: when(p.last_used_at) }) : t("passkeys.unused", { from: date(p.created_at) }))),
    el("button", { type: "button", class: "quiet bad", data: { key: "delete" }, ariaLabel: t("passkeys.deleteOf", { name: p.name }), on: { click: async () => {
      try { await call("DELETE", `/api/passkeys/${p.id}`); } catch (error) { toast(error.message); }
      redraw();
    } } }, t("common.delete")))));
  const why = reason === "passkeys_off" ? t("passkeys.off") : !available ? t("passkeys.address") : passkeysWork() ? "" : t("passkeys.oldBrowser");
  return [el("p", { class: "muted" }, why || t("passkeys.text")), items.length ? list : "",
    why ? "" : action(t("passkeys.add"), () => step(passkeyForm(redraw)))];
}

// --- the end --------------------------------------------------------------------------------------------------------

function drawRemoval(redraw, step) {
  return [el("p", { class: "muted" }, t("security.deleteText")), action(t("security.delete"), () => {
    step(el("p", {}, t("security.deleteSure")), proof(t("security.delete"), true, async (password) => {
      await call("POST", "/api/account/delete", { password });
      emit("account-gone");
    }));
  }, "quiet bad")];
}

export async function draw(panel) {
  panel.classList.add("security");
  panel.append(...await Promise.all([part("password", t("login.password"), drawPassword), part("sessions", t("security.sessions"), drawSessions),
    part("factor", t("security.factor"), drawFactor), part("passkeys", t("passkeys.title"), drawPasskeys),
    part("oidc", t("oidc.title"), (redraw, step) => drawProvider(redraw, step, { proof, action })),
    part("delete", t("security.deleteTitle"), drawRemoval)]));
}
