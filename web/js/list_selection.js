// Which conversations of the list are chosen, and the bar that acts on all of them.

import { el, $, icon } from "./dom.js";
import { t } from "./i18n.js";
import { emit } from "./state.js";

const MOST = 1000; // the server's limit for one request

class Selection {
  constructor() {
    this.set = new Set();
    this.last = null; // where a range begins
  }

  get size() { return this.set.size; }
  has(id) { return this.set.has(id); }
  ids() { return [...this.set]; }

  toggle(id) {
    if (!this.set.delete(id) && this.set.size < MOST) this.set.add(id);
    this.last = id;
    this.draw?.();
  }

  /** All from the last one to this one, in the order of the list. */
  range(all, id) {
    const [a, b] = [all.indexOf(this.last), all.indexOf(id)].sort((x, y) => x - y);
    for (const x of all.slice(Math.max(0, a), b + 1)) if (this.set.size < MOST) this.set.add(x);
    this.last = id;
    this.draw?.();
  }

  clear() {
    this.set.clear();
    this.last = null;
    this.draw?.();
  }

  /** root: where the bar stands; doors: what the sidebar does with the chosen. */
  bar(root, doors) {
    const act = (name, label, run, bad = false) => el("button", { class: `icon-button${bad ? " bad" : ""}`, type: "button", title: label, ariaLabel: label, on: { click: () => run(doors.chosen()) } }, icon(name));
    this.draw = () => {
      root.hidden = this.size === 0;
      if (root.hidden) return;
      const trash = doors.inTrash();
      root.replaceChildren(el("span", { class: "selection-count", role: "status" }, t("list.chosen", { n: this.size })),
        el("button", { class: "icon-button", type: "button", title: t("list.chooseNone"), ariaLabel: t("list.chooseNone"), on: { click: () => { this.clear(); doors.drawList(); $("search").focus(); } } }, icon("close")),
        ...(trash ? [
          act("restore", t("list.restore"), (all) => doors.change(all, { trashed: false })),
          act("trash", t("list.deleteNow"), doors.removeForGood, true),
        ] : [
          act("pin", t("list.pin"), (all) => doors.change(all, { pinned: all.some((c) => !c.pinned) })),
          act("archive", t("list.archive"), (all) => doors.change(all, { archived: all.some((c) => !c.archived) })),
          act("tag", t("list.tags"), doors.editTags),
          act("folder", t("projects.move"), (all) => doors.move(all, root.firstChild)),
          act("share", t("list.export"), (all) => emit("export-chosen", all.map((c) => c.id))),
          act("trash", t("list.delete"), (all) => doors.change(all, { trashed: true }), true),
        ]));
    };
    this.draw();
  }
}

export const selection = new Selection();
