// A long list of blocks of unknown heights in a scroller: only those near the screen are in the document, and those in
// which something is being typed; spacers stand for the rest. Heights are measured once a block has been drawn and guessed
// before, so the scrollbar is about right from the start; what the reader looks at stays where it is when blocks above it
// change.

const AROUND = 1.5; // screens drawn above and below
const GUESS = 160; // pixels, until some are measured

export class BlockWindow {
  /**
   * list: the element that holds the blocks; scroller: what scrolls it; key(item): its identity; make(item): its element,
   * called again after the item was far away; gone(item): its element left the document; holds(node): must this element
   * stay however far away it is?
   */
  constructor({ list, scroller, key, make, gone = () => {}, holds = () => false }) {
    Object.assign(this, { list, scroller, key, make, gone, holds });
    this.items = [];
    this.drawn = new Map(); // key -> {item, node}, in order
    this.heights = new Map(); // key -> pixels
    this.from = this.to = 0;
    this.frame = 0;
    this.spacers = [];
    scroller.addEventListener("scroll", () => this.later(), { passive: true });
    this.watch = new ResizeObserver(() => this.later());
    this.watch.observe(scroller);
    addEventListener("beforeprint", () => { if (this.items.length) this.draw(0, this.items.length); }); // paper has no scrollbar
  }

  spacer() {
    const node = document.createElement("li");
    node.className = "spacer";
    node.setAttribute("aria-hidden", "true");
    return node;
  }

  later() {
    this.frame ||= requestAnimationFrame(() => { this.frame = 0; this.update(); });
  }

  /** Takes a new list; blocks whose key stays keep their elements. where: "end", "keep", or a key to be shown. */
  set(items, where = "keep") {
    const known = new Set(items.map(this.key));
    for (const [key, { item }] of this.drawn) if (!known.has(key)) this.forget(key, item);
    for (const key of this.heights.keys()) if (!known.has(key)) this.heights.delete(key);
    this.items = items;
    if (where === "end") this.toEnd(true);
    else if (where === "keep") this.update(true);
    else this.show(where);
  }

  forget(key, item) {
    this.drawn.get(key)?.node.remove();
    this.drawn.delete(key);
    this.gone(item);
  }

  /** These blocks look different now: their elements are made again. */
  renew(keys) {
    const anchor = this.anchor();
    for (const key of keys) {
      const held = this.drawn.get(key);
      if (!held) continue;
      const node = this.make(held.item);
      held.node.replaceWith(node);
      held.node = node;
    }
    if (keys.length && this.drawn.size) {
      this.draw(this.from, this.to);
      this.keep(anchor);
    }
  }

  keep(anchor) {
    const node = anchor && this.drawn.get(anchor.key)?.node;
    if (!node) return;
    const moved = node.getBoundingClientRect().top - anchor.top;
    if (Math.abs(moved) > 0.5) this.scroller.scrollTop += moved;
  }

  /** Everything is made anew, for another list. */
  clear() {
    for (const [key, { item }] of this.drawn) this.forget(key, item);
    this.heights.clear();
    this.items = [];
    this.from = this.to = 0;
    this.list.replaceChildren();
  }

  guess() {
    if (!this.heights.size) return GUESS;
    let sum = 0;
    for (const h of this.heights.values()) sum += h;
    return sum / this.heights.size;
  }

  heightOf(i, guess) { return this.heights.get(this.key(this.items[i])) ?? guess; }

  measure() {
    for (const [key, { node }] of this.drawn) {
      const gap = parseFloat(getComputedStyle(node).marginBottom) || 0;
      this.heights.set(key, node.offsetHeight + gap);
    }
  }

  /** The items that should be in the document for the place where the scroller stands. */
  wanted() {
    const guess = this.guess();
    const screen = this.scroller.clientHeight || 600;
    const top = this.scroller.getBoundingClientRect().top - this.list.getBoundingClientRect().top;
    const [first, last] = [top - AROUND * screen, top + (1 + AROUND) * screen];
    let y = 0;
    let from = -1;
    let to = this.items.length;
    for (let i = 0; i < this.items.length; i++) {
      const end = y + this.heightOf(i, guess);
      if (from < 0 && end >= first) from = i;
      if (y > last) { to = i; break; }
      y = end;
    }
    return [from < 0 ? Math.max(0, this.items.length - 1) : from, to];
  }

  /** What stays in its place: the first drawn block that reaches into the screen. */
  anchor() {
    const top = this.scroller.getBoundingClientRect().top;
    for (const [key, { node }] of this.drawn) {
      const box = node.getBoundingClientRect();
      if (box.bottom > top && box.top < top + this.scroller.clientHeight) return { key, top: box.top };
    }
    return null;
  }

  update(changed = false) {
    if (!this.items.length) { this.clear(); return; }
    this.measure();
    const [from, to] = this.wanted();
    const slack = Math.max(3, (to - from) >> 1);
    const near = this.from <= from && to <= this.to && this.to - this.from <= to - from + 2 * slack;
    if (!changed && near && this.drawn.size) return;
    const anchor = this.anchor();
    this.draw(from, to);
    this.keep(anchor);
  }

  /** The items from..to and those that are held, as indices in order. */
  shown(from, to) {
    const out = [];
    const held = new Set();
    for (const [key, { node }] of this.drawn) if (this.holds(node)) held.add(key);
    this.items.forEach((item, i) => { if ((i >= from && i < to) || (held.size && held.has(this.key(item)))) out.push(i); });
    return out;
  }

  draw(from, to) {
    const shown = this.shown(from, to);
    const keep = new Set(shown.map((i) => this.key(this.items[i])));
    for (const [key, { item }] of this.drawn) if (!keep.has(key)) this.forget(key, item);
    for (const spacer of this.spacers) spacer.remove(); // so that no block must move for them: one that moves loses the focus
    const drawn = new Map();
    const gaps = [];
    let before = null;
    const place = (node) => {
      const at = before ? before.nextSibling : this.list.firstChild;
      if (at !== node) this.list.insertBefore(node, at);
      before = node;
    };
    const skip = (first, end) => {
      if (first === end) return;
      const spacer = (this.spacers[gaps.length] ??= this.spacer());
      gaps.push({ spacer, first, end });
      place(spacer);
    };
    let next = 0;
    for (const i of shown) {
      const item = this.items[i];
      const key = this.key(item);
      const node = this.drawn.get(key)?.node || this.make(item);
      node.setAttribute("aria-posinset", i + 1);
      node.setAttribute("aria-setsize", this.items.length);
      skip(next, i);
      place(node);
      drawn.set(key, { item, node });
      next = i + 1;
    }
    skip(next, this.items.length);
    this.drawn = drawn;
    [this.from, this.to] = [from, to];
    this.measure();
    const guess = this.guess();
    for (const { spacer, first, end } of gaps) {
      let height = 0;
      for (let i = first; i < end; i++) height += this.heightOf(i, guess);
      spacer.style.height = `${height}px`;
    }
  }

  /** Draws what ends at the last item and goes there. changed: are the items others than those that were drawn? */
  toEnd(changed = false) {
    const n = this.items.length;
    if (n && this.to < n) this.draw(this.reach(n - 1, -1), n);
    else this.update(changed);
    this.scroller.scrollTop = this.scroller.scrollHeight;
    if (n) this.update();
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  /** From item i so many upwards (step -1) or downwards as fill the surroundings of a screen. */
  reach(i, step) {
    const guess = this.guess();
    let room = (1 + AROUND) * (this.scroller.clientHeight || 600);
    while (room > 0 && i + step >= 0 && i + step < this.items.length) {
      room -= this.heightOf(i, guess);
      i += step;
    }
    return i;
  }

  /** Brings an item to the upper third of the screen; gives its element, or null. */
  show(key) {
    const at = this.items.findIndex((item) => this.key(item) === key);
    if (at < 0) return null;
    this.draw(this.reach(at, -1), this.reach(at, 1) + 1);
    const { node } = this.drawn.get(key);
    const place = () => {
      const box = node.getBoundingClientRect();
      const view = this.scroller.getBoundingClientRect();
      this.scroller.scrollTop += box.top - view.top - Math.min(view.height / 4, 120);
    };
    place();
    this.update();
    place();
    return node;
  }
}
