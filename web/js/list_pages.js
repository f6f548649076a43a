// The conversations that the list holds: pages of the server side by side, at most some thousand rows however long the
// list is. Scrolled further, pages come at one end and go at the other.

import { call } from "./api.js";
import { t } from "./i18n.js";

export const PAGE = 100;
const HELD = 1000; // rows; beyond it the far end goes

export const cursor = (c) => `${c.updated_at}-${c.id}`;

export class ListPages {
  constructor() { this.reset({}, ""); }

  reset(params, text) {
    this.params = params;
    this.text = text;
    this.items = [];
    this.pinned = [];   // a group of its own in the plain list
    this.next = null;   // cursor of what comes below
    this.cut = false;   // pages above were dropped
    this.partial = false; // a search that did not read everything
    this.indexing = false; // texts that no search finds yet
    this.failed = "";   // why the first page did not come
    this.loading = null;
    this.turn = (this.turn || 0) + 1;
  }

  get plain() { return !this.text && !Object.keys(this.params).length; }

  /** What is said below the rows. */
  notes(none) {
    if (this.failed) return [this.failed];
    return [
      none ? t(this.plain ? "list.empty" : "list.nothing") : this.partial && !this.next ? t("list.partial") : "",
      this.indexing ? t("list.indexing") : "",
    ].filter(Boolean);
  }

  ask(more) {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries({ limit: PAGE, ...this.params, ...more })) for (const one of [value].flat()) query.append(name, one);
    if (this.text) query.set("q", this.text);
    if (this.plain) { query.set("pinned", "0"); query.set("project", "none"); } // those in projects stand in their folders
    return call("GET", `/api/conversations?${query}`);
  }

  top() {
    return Promise.all([this.ask({}), this.plain ? call("GET", "/api/conversations?pinned=1&limit=199") : { items: [] }]);
  }

  /** One request at a time; what comes after a reset is thrown away. False: nothing was to be done. */
  async once(work) {
    if (this.loading) return false;
    const turn = this.turn;
    const mine = work(() => turn === this.turn);
    this.loading = mine;
    try {
      return await mine;
    } finally {
      if (this.loading === mine) this.loading = null;
    }
  }

  first() {
    return this.once(async (current) => {
      let page, pins;
      try { [page, pins] = await this.top(); } catch (error) { // what stood there is no answer to what was asked
        if (current()) this.failed = error.message;
        return current();
      }
      if (!current()) return false;
      Object.assign(this, { items: page.items, pinned: pins.items, next: page.next, cut: false, partial: Boolean(page.partial), indexing: Boolean(page.indexing) });
      return true;
    });
  }

  /** What is at the top now, with the rows below that are held already. */
  refresh() {
    if (this.cut || this.text) return Promise.resolve(false);
    if (this.loading) return this.loading.catch(() => {}).then(() => this.refresh()); // what it brings may be older
    return this.once(async (current) => {
      const [page, pins] = await this.top();
      if (!current()) return false;
      const last = page.items.at(-1);
      const older = (c) => last && (c.updated_at < last.updated_at || (c.updated_at === last.updated_at && Number(c.id) < Number(last.id)));
      const rest = page.next ? this.items.filter(older) : [];
      this.next = rest.length ? this.next : page.next;
      this.items = page.items.concat(rest);
      this.pinned = pins.items;
      this.failed = "";
      return true;
    });
  }

  below() {
    if (!this.next) return Promise.resolve(false);
    return this.once(async (current) => {
      const page = await this.ask({ before: this.next });
      if (!current()) return false;
      this.items = this.items.concat(page.items);
      this.next = page.next;
      this.partial ||= Boolean(page.partial);
      this.indexing = Boolean(page.indexing);
      if (this.items.length > HELD && !this.text) { // a search cannot be asked for upwards, so it keeps its rows
        this.items = this.items.slice(this.items.length - HELD);
        this.cut = true;
      }
      return true;
    });
  }

  above() {
    if (!this.cut || !this.items.length) return Promise.resolve(false);
    return this.once(async (current) => {
      const page = await this.ask({ after: cursor(this.items[0]) });
      if (!current()) return false;
      const known = new Set(page.items.map((c) => c.id)); // a row that was written to meanwhile is there twice
      this.items = page.items.concat(this.items.filter((c) => !known.has(c.id)));
      this.cut = Boolean(page.prev);
      if (this.items.length > HELD) {
        this.items = this.items.slice(0, HELD);
        this.next = cursor(this.items.at(-1));
      }
      return true;
    });
  }

  find(id) { return this.items.find((c) => c.id === id) || this.pinned.find((c) => c.id === id); }

  /** Fits a conversation the list that is shown, with its marks as they are now? */
  fits(c) {
    if (Boolean(c.trashed_at) !== (this.params.trash === "1")) return false;
    if (this.params.pinned === "1" && !c.pinned) return false;
    return this.params.trash === "1" || this.params.archived === "any" || c.archived === (this.params.archived === "1");
  }

  remove(ids) {
    const gone = (c) => !ids.has(c.id);
    this.items = this.items.filter(gone);
    this.pinned = this.pinned.filter(gone);
  }

  /** A conversation was written to: it goes to the top of its group, if the top is held. */
  touch(conversation) {
    const old = this.find(conversation.id);
    const item = Object.assign(old || { tags: [], pinned: false, archived: false, trashed_at: null }, conversation);
    if (this.text || (!this.plain && !old)) return;
    this.remove(new Set([item.id]));
    if (item.pinned && this.plain) this.pinned.unshift(item);
    else if (!this.cut && !(this.plain && (item.archived || item.project_id))) this.items.unshift(item);
  }
}
