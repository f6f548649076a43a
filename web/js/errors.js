// What went wrong, in the reader's language. An error of the server is a code, or more exactly a reason, with the numbers that
// belong to it; its own words are English and for programs: they stand in only where the catalogue knows no better.

import { bytes, wait } from "./format.js";
import { date, has, t } from "./i18n.js";

/** What stands for the {names} in a text: the numbers, and what they say to people. */
function values(error) {
  const params = error.params || {};
  const { used, limit, seconds, needed, free } = params;
  return {
    ...params,
    detail: (error.message || "").replace(/^file: /, ""),
    ...(used >= 0 ? { usedSize: bytes(used) } : {}),
    ...(limit >= 0 ? { limitSize: bytes(limit) } : {}),
    ...(free >= 0 ? { neededSize: bytes(needed), freeSize: bytes(free) } : {}),
    ...(seconds >= 0 ? { in: wait(seconds), at: date(Date.now() + seconds * 1000, { timeStyle: "short" }) } : {}),
  };
}

/** error: the object of the API, {code, reason, params, message}; "" when there is none. */
export function says(error) {
  const key = [error?.reason, error?.code].find((name) => name && has(`serverErrors.${name}`));
  return key ? t(`serverErrors.${key}`, values(error)) : error?.message || "";
}

/** Why an answer failed: as the page found it, or as its row has it. Rows of other programs have words alone. */
export function failureOf(message) {
  if (message.said) return message.said;
  if (message.error_detail) return says({ ...message.error_detail, message: message.error });
  return message.error ? t("thread.failedBecause", { why: message.error }) : t("thread.failed");
}
