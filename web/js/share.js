// The dialog that makes, shows and revokes read-only links to a chat.

import { call } from "./api.js";
import { announce, copyText, el, $, toast } from "./dom.js";
import { date, t } from "./i18n.js";
import { render } from "./render.js";
import { state } from "./state.js";

let conversation = null;

function item(link) {
  return el("li", { data: { key: link.id } }, el("span", { class: "grow" }, t("share.made", { date: date(link.created_at, { dateStyle: "medium", timeStyle: "short" }) }),
    el("span", { class: "muted share-until" }, [link.expires_at ? t("share.until", { date: date(link.expires_at) }) : t("share.forever"), link.attachments ? t("share.withFiles") : ""].filter(Boolean).join(" · "))),
  el("button", { class: "quiet", type: "button", data: { key: "revoke" }, on: { click: async () => {
    try { await call("DELETE", `/api/shares/${link.id}`); toast(t("share.revoked")); await draw(); } catch (error) { toast(error.message, 5000); }
  } } }, t("share.revoke")));
}

async function draw() {
  const { items, allowed } = await call("GET", `/api/conversations/${conversation.id}/shares`);
  $("share-off").hidden = allowed;
  $("share-text").hidden = !allowed && !items.length;
  if (state.user?.role === "admin") $("share-off").replaceChildren(t("share.offAdmin"), " ", el("a", { href: "/admin#/settings/share_links" }, t("share.toSettings")));
  $("share-form").hidden = !allowed;
  render($("share-list"), ...items.map(item));
  $("share-made").hidden = !items.length;
}

export async function shareDialog(c) {
  conversation = c;
  $("share-link").hidden = true;
  $("share-files").checked = false;
  try { await draw(); } catch (error) { toast(error.message, 5000); return; }
  $("share-dialog").showModal();
}

$("share-url").addEventListener("focus", ({ target }) => target.select());
$("share-copy").addEventListener("click", () => copyText($("share-url").value, t("share.copied")));
$("share-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const days = Number($("share-days").value);
  const terms = { attachments: $("share-files").checked, ...(days ? { expires_in_days: days } : {}) };
  try {
    const link = await call("POST", `/api/conversations/${conversation.id}/shares`, terms);
    const url = location.origin + link.path;
    $("share-link").hidden = false;
    $("share-url").value = url;
    await draw();
    $("share-copy").focus(); // what one does next with it
    announce(t("share.created"));
  } catch (error) { toast(error.message, 5000); }
});
