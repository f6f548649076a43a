// The list at the side: shown or not. On a phone it is a drawer over the chat, which a finger pulls out from the edge and pushes back.

import { $ } from "./dom.js";

const EDGE = 32; // pixels from the screen's edge, in which the drawer is taken hold of
const SLOP = 10; // pixels, before a finger's way tells what it wants
const FLING = 0.35; // pixels a millisecond: faster than this, the direction decides and not the place
const MEMORY_MS = 100; // the last part of the way, which tells how fast it was
const app = $("app");
const sidebar = $("sidebar");
const scrim = $("scrim");
const main = document.querySelector(".main");
export const narrow = matchMedia("(max-width: 760px)");
let drag = null; // {id, x, y, from: pixels of the drawer seen at its beginning, seen, held: it follows, points: the last [x, ms]}

export const sidebarShown = () => !app.classList.contains("side-hidden");

export function showSidebar(show) {
  app.classList.toggle("side-hidden", !show);
  sidebar.inert = !show;
  const over = show && narrow.matches;
  scrim.hidden = !over;
  main.inert = over;
  if (!narrow.matches) try { localStorage.setItem("sidebar", show ? "1" : "0"); } catch { /* private mode */ }
}
narrow.addEventListener("change", () => { release(); showSidebar(!narrow.matches); });
$("sidebar-open").addEventListener("click", () => { showSidebar(true); if (narrow.matches) $("sidebar-close").focus(); });
$("sidebar-close").addEventListener("click", () => { showSidebar(false); $("sidebar-open").focus(); });
scrim.addEventListener("click", () => showSidebar(false));

// --- by a finger ----------------------------------------------------------------------------------------------------
// css/sidebar.css leaves ways up and down to the browser (touch-action): where it takes one for scrolling, the pointer is cancelled. Code and
// tables that scroll sideways keep their own; the edge from which a system goes back is the system's, which cancels the pointer, too.

const widthOf = () => sidebar.offsetWidth;

/** Draws the drawer with so many pixels of it seen. */
function place(seen) {
  drag.seen = Math.min(widthOf(), Math.max(0, seen));
  sidebar.style.transform = `translateX(${drag.seen - widthOf()}px)`;
  scrim.style.opacity = String(drag.seen / widthOf());
}

function take() {
  drag.held = true;
  app.classList.add("is-dragged"); // without a motion of its own
  if (!drag.from) showSidebar(true);
  try { document.documentElement.setPointerCapture(drag.id); } catch { /* it is up already */ }
}

/** Where it was let go, and how fast it went there: pixels a millisecond, to the right. */
function speed(now) {
  const recent = drag.points.filter(([, ms]) => now - ms <= MEMORY_MS);
  if (recent.length < 2) return 0;
  const [[x0, ms0], [x1, ms1]] = [recent[0], recent.at(-1)];
  return (x1 - x0) / Math.max(1, ms1 - ms0);
}

/** From where the finger left it, it goes on by itself. */
function settle(open) {
  drag = null;
  showSidebar(open);
  app.classList.remove("is-dragged");
  sidebar.getBoundingClientRect(); // here the motion begins, so it must be known before it ends elsewhere
  sidebar.style.transform = scrim.style.opacity = "";
  if (open) $("sidebar-close").focus({ preventScroll: true, focusVisible: false });
}

/** What a finger had begun goes back to where it was. */
function release() {
  if (drag?.held) settle(drag.from > 0);
  drag = null;
}

/** Who has zoomed in moves over the page sideways, too (css/sidebar.css). */
const zoomed = () => (globalThis.visualViewport?.scale || 1) > 1.01;
globalThis.visualViewport?.addEventListener("resize", () => app.classList.toggle("is-zoomed", zoomed()));

addEventListener("pointerdown", (event) => {
  if (event.pointerType !== "touch" || !narrow.matches || app.hidden || document.querySelector("dialog[open]")) return;
  release();
  if (!event.isPrimary || zoomed()) return; // two fingers want something else
  const shown = sidebarShown();
  if (shown ? event.target.closest(".menu, input") : event.clientX > EDGE) return;
  drag = { id: event.pointerId, x: event.clientX, y: event.clientY, from: shown ? widthOf() : 0, seen: 0, held: false, points: [[event.clientX, event.timeStamp]] };
}, { passive: true });

addEventListener("pointermove", (event) => {
  if (drag?.id !== event.pointerId) return;
  const [right, down] = [event.clientX - drag.x, event.clientY - drag.y];
  drag.points.push([event.clientX, event.timeStamp]);
  if (drag.points.length > 20) drag.points.shift();
  if (!drag.held) {
    if (Math.max(Math.abs(right), Math.abs(down)) < SLOP) return;
    if (Math.abs(down) > Math.abs(right) || (drag.from ? right > 0 : right < 0)) { drag = null; return; }
    take();
  }
  place(drag.from + right);
}, { passive: true });

addEventListener("pointerup", (event) => {
  if (drag?.id !== event.pointerId) return;
  if (!drag.held) { drag = null; return; }
  drag.points.push([event.clientX, event.timeStamp]);
  const fast = speed(event.timeStamp);
  settle(Math.abs(fast) > FLING ? fast > 0 : drag.seen > widthOf() / 2);
});

addEventListener("pointercancel", (event) => {
  if (drag?.id === event.pointerId) release();
});
