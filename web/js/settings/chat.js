// Chat defaults: what new chats begin with.

import { el } from "../dom.js";
import { t } from "../i18n.js";
import { defaultsForm } from "../settings.js";

export async function draw(panel) {
  panel.append(el("p", { class: "muted" }, t("settingsWindow.chatText")));
  const form = await defaultsForm();
  panel.append(form.node);
}
