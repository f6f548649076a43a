// Numbers and dates for people.

import { date, number, t } from "./i18n.js";

function digits(n, places) {
  return number(n, { minimumFractionDigits: places, maximumFractionDigits: places });
}

export function rate(tokensPerSecond) {
  if (!(tokensPerSecond > 0)) return "";
  return t("thread.rate", { rate: digits(tokensPerSecond, tokensPerSecond >= 100 ? 0 : 1) });
}

export function seconds(ms) {
  if (!(ms >= 0)) return "";
  if (ms < 999.5) return t("time.ms", { n: Math.round(ms) });
  if (ms < 59950) return t("time.seconds", { n: digits(ms / 1000, 1) });
  const whole = Math.round(ms / 1000);
  return t("time.minutes", { minutes: Math.floor(whole / 60), seconds: whole % 60 });
}

/** How long to wait: "35 seconds", "4 minutes", "3 hours 55 minutes". */
export function wait(s) {
  const unit = (n, name) => number(n, { style: "unit", unit: name, unitDisplay: "long" });
  if (s < 60) return unit(Math.max(1, Math.ceil(s)), "second");
  const minutes = Math.ceil(s / 60);
  if (minutes < 60) return unit(minutes, "minute");
  return [unit(Math.floor(minutes / 60), "hour"), minutes % 60 ? unit(minutes % 60, "minute") : ""].filter(Boolean).join(" ");
}

const UNITS = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];

/** "17 bytes", "12.3 kB", "373 MB": powers of 1000, the reader's way of writing. */
export function bytes(n) {
  let i = 0;
  while (Math.abs(n) >= 999.5 && i < UNITS.length - 1) { n /= 1000; i++; }
  return number(n, { style: "unit", unit: UNITS[i], unitDisplay: i ? "short" : "long", maximumSignificantDigits: 3 });
}

export function count(n) {
  return number(n);
}

/** "Today", "Yesterday", "This week", or the month. */
export function dayGroup(ms, now = new Date()) {
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  if (ms >= midnight) return t("list.today");
  if (ms >= midnight - 86400000) return t("list.yesterday");
  if (ms >= midnight - 6 * 86400000) return t("list.week");
  return date(ms, { month: "long", year: "numeric" });
}

/** A picture that is shown, of those that are taken. */
export function isImage(file) {
  return /^image\/(png|jpeg|webp|gif)$/.test(file.type || "");
}
