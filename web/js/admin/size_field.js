// A number of bytes as people write it: a number and a unit.

import { el } from "../dom.js";
import { number, t } from "../i18n.js";

const SIZES = [["byte", 1], ["kilobyte", 1e3], ["megabyte", 1e6], ["gigabyte", 1e9], ["terabyte", 1e12]];
const sizeName = (name) => number(0, { style: "unit", unit: name, unitDisplay: "short" }).replace(/^0\s?/, "");

const sizeFor = (value) => SIZES.findLast(([, factor]) => value >= factor) || SIZES[0];

/** {input, node, read()}: read gives bytes, or null where nothing stands. value: bytes, or null; label: what it is, for the unit's name. */
export function sizeField(value, label, props = {}) {
  const [name, factor] = value === null ? SIZES[3] : sizeFor(value);
  const input = el("input", { ...props, type: "number", value: value === null ? "" : String(value / factor), autocomplete: "off", min: 0, step: "any" });
  const size = el("select", { ariaLabel: t("admin.unitOf", { name: label }) }, ...SIZES.map(([n]) => el("option", { value: n, selected: n === name }, sizeName(n))));
  const read = () => (input.value === "" ? null : Math.round(Number(input.value) * SIZES.find(([n]) => n === size.value)[1]));
  return { input, node: el("div", { class: "with-unit" }, input, size), read };
}
