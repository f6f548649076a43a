// Archive and trash: the ways to them at the list's foot, the head over the list while it shows one, and what stands there while it is empty. The
// search box goes on searching, there.

import { call } from "./api.js";
import { confirmDialog, el, $, icon, toast } from "./dom.js";
import { t } from "./i18n.js";
import { emit, state } from "./state.js";

const PLACES = { // as list_query.js would read it, and what it is called
  archive: { query: "is:archived", icon: "archive", name: "list.placeArchive", title: "list.archiveEmpty", text: "list.archiveEmptyText" },
  trash: { query: "in:trash", icon: "trash", name: "list.placeTrash", title: "list.trashEmpty", text: "list.trashEmptyText" },
};
const buttons = [...document.querySelectorAll("[data-place]")];

let here = ""; // where one went by a button

/** What is typed, where one is. */
export const askedHere = (typed) => (here ? `${PLACES[here].query} ${typed}` : typed);

/** The place that the list shows under these filters, or "". */
export const placeOf = (params) => (params.trash === "1" ? "trash" : params.archived === "1" ? "archive" : "");
export const placeName = (params) => (placeOf(params) ? t(PLACES[placeOf(params)].name) : "");

export function goToPlace(place) {
  here = place;
  emit("list-query", "");
}

for (const button of buttons) button.addEventListener("click", () => goToPlace(button.hasAttribute("aria-current") ? "" : button.dataset.place));
$("place-back").addEventListener("click", () => { goToPlace(""); $("search").focus(); });
$("place-empty").addEventListener("click", emptyTrash);

/** some: whether the list has chats there. */
export function drawPlace(params, some) {
  const place = placeOf(params);
  for (const button of buttons) {
    if (button.dataset.place === place) button.setAttribute("aria-current", "page");
    else button.removeAttribute("aria-current");
  }
  $("place").hidden = !place;
  $("sidebar").toggleAttribute("data-place-shown", Boolean(place));
  $("sidebar").toggleAttribute("data-found-shown", Boolean(state.query));
  $("conversations").setAttribute("aria-label", placeName(params) || t("list.label"));
  $("place-name").textContent = placeName(params);
  $("search").placeholder = t(place ? "list.searchHere" : "list.search");
  $("place-kept").hidden = place !== "trash" || !some;
  $("place-empty").hidden = place !== "trash" || !some;
}

/** What goes here, while nothing is here. */
export function emptyPlace(place) {
  const { icon: sign, title, text } = PLACES[place];
  return el("div", { class: "row place-none" }, icon(sign), el("b", {}, t(title)), el("p", {}, t(text)));
}

export async function emptyTrash() {
  if (!await confirmDialog(t("list.emptyTrash"), t("list.emptyTrashText"), t("list.emptyTrash"))) return;
  try {
    const { removed } = await call("DELETE", "/api/trash");
    toast(t("list.emptied", { n: removed }));
    emit("list-touched");
  } catch (error) { toast(error.message); }
  emit("list-query");
}
