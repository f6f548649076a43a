// What of a chat is kept in the prompt cache on the server's disk, and forgetting it.

import { call } from "./api.js";
import { confirmDialog, toast } from "./dom.js";
import { bytes, count } from "./format.js";
import { t } from "./i18n.js";
import { titleOf } from "./list_row.js";

export async function keptDialog(c) {
  const path = `/api/conversations/${c.id}/prompt-cache`;
  try {
    const kept = await call("GET", path);
    if (!kept.tokens) { toast(t("list.keptNone")); return; }
    const text = t("list.keptText", { tokens: count(kept.tokens), title: titleOf(c), size: bytes(kept.bytes) });
    if (!await confirmDialog(t("list.keptTitle"), text, t("list.keptForget"))) return;
    await call("DELETE", path);
    toast(t("list.keptDone"));
  } catch (error) { toast(error.message); }
}
