// Rows of known heights in a scroller: only those near the screen are in the document. A row keeps its element while it is
// near, so focus and hover stay.

const OVERSCAN = 400; // pixels drawn above and below the screen

export class VirtualRows {
  /** scroller: an element of its own; draw(row, old): the row's element, old to be used again or null. */
  constructor(scroller, draw) {
    this.scroller = scroller;
    this.draw = draw;
    this.rows = []; // {key, height}
    this.tops = []; // of each row, from the first held one
    this.above = 0; // pixels of rows that are not held any more
    this.nodes = new Map(); // key -> element
    this.frame = 0;
    this.space = document.createElement("div");
    this.space.className = "rows";
    scroller.replaceChildren(this.space);
    scroller.addEventListener("scroll", () => this.later(), { passive: true });
    new ResizeObserver(() => this.later()).observe(scroller);
  }

  later() {
    this.frame ||= requestAnimationFrame(() => { this.frame = 0; this.update(false); });
  }

  /** Takes new rows; what is at the screen's top stays there, unless `top` asks for the list's beginning. */
  set(rows, { above = null, top = false } = {}) {
    const anchor = top ? null : this.anchor();
    const before = this.scroller.scrollTop;
    this.rows = rows;
    this.tops = [];
    let y = 0;
    for (const row of rows) { this.tops.push(y); y += row.height; }
    this.height = y;
    const at = anchor ? rows.findIndex((row) => row.key === anchor.key) : -1;
    // Held rows may begin further down or up than before: the place of the anchor says how far.
    this.above = above ?? (at >= 0 ? Math.max(0, anchor.top - this.tops[at]) : 0);
    this.space.style.height = `${this.above + y}px`;
    if (top) this.scroller.scrollTop = 0;
    else if (at >= 0) this.scroller.scrollTop = before + this.above + this.tops[at] - anchor.top;
    this.update(true);
  }

  anchor() {
    const i = this.indexAt(this.scroller.scrollTop);
    for (let k = i; k < this.rows.length; k++) if (!this.rows[k].loose) return { key: this.rows[k].key, top: this.above + this.tops[k] };
    return null;
  }

  /** The row at a place of the scroller, by halving. */
  indexAt(y) {
    let [low, high] = [0, this.rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.above + this.tops[middle] + this.rows[middle].height <= y) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** [first, end) of the rows that stand on the screen or near it. */
  range() {
    const top = this.scroller.scrollTop;
    return [this.indexAt(top - OVERSCAN), Math.min(this.rows.length, this.indexAt(top + this.scroller.clientHeight + OVERSCAN) + 1)];
  }

  update(changed) {
    const [from, to] = this.range();
    if (!changed && from === this.from && to === this.to) { this.moved?.(); return; }
    [this.from, this.to] = [from, to];
    const nodes = new Map();
    for (let i = from; i < to; i++) {
      const row = this.rows[i];
      const old = this.nodes.get(row.key) || null;
      const node = old && !changed ? old : this.draw(row, old);
      node.style.transform = `translateY(${this.above + this.tops[i]}px)`;
      nodes.set(row.key, node);
      if (node !== old) { old?.remove(); this.space.append(node); }
    }
    for (const [key, node] of this.nodes) if (nodes.get(key) !== node) node.remove();
    this.nodes = nodes;
    this.sort(from, to);
    this.moved?.();
  }

  /** Elements in the order of their rows, for the keyboard and for those who listen. */
  sort(from, to) {
    let next = null;
    for (let i = to - 1; i >= from; i--) {
      const node = this.nodes.get(this.rows[i].key);
      if (node.nextSibling !== next && !node.contains(document.activeElement)) this.space.insertBefore(node, next);
      next = node;
    }
  }

  /** Scrolls as little as is needed to show a row; its element. */
  show(i) {
    const top = this.above + this.tops[i];
    const view = this.scroller;
    if (top < view.scrollTop) view.scrollTop = top;
    else if (top + this.rows[i].height > view.scrollTop + view.clientHeight) view.scrollTop = top + this.rows[i].height - view.clientHeight;
    this.update(false);
    return this.nodes.get(this.rows[i].key);
  }

  redraw() { this.update(true); }
}
