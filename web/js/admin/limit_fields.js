// The five limits as fields, of a user and of a group: an empty one says nothing.

import { el } from "../dom.js";
import { t } from "../i18n.js";
import { sizeField } from "./size_field.js";

export const LIMITS = ["tokens_per_day", "storage_bytes", "requests_per_minute", "tokens_per_minute", "max_jobs"];

/** limits: a number or null each, or null; {nodes, read(): the same}. */
export function limitFields(limits, placeholder) {
  const fields = LIMITS.map((name) => {
    const value = limits ? limits[name] : null;
    const label = t(`users.limit_${name}`);
    const props = { placeholder, ariaLabel: label };
    if (name === "storage_bytes") return { name, label, ...sizeField(value, label, props) };
    const input = el("input", { ...props, type: "number", min: 0, step: 1, value: value === null ? "" : String(value) });
    return { name, label, node: input, read: () => (input.value === "" ? null : Number(input.value)) };
  });
  return { nodes: fields.map((f) => el("label", {}, f.label, f.node)), read: () => Object.fromEntries(fields.map((f) => [f.name, f.read()])) };
}
