// The bar over the chat: its title, which opens what can be done with the chat, and the ways to share it and to leave no trace.

import { $, openMenu } from "./dom.js";
import { t } from "./i18n.js";
import { move } from "./project_doors.js";
import { change, currentRow, editTags, rename } from "./sidebar.js";
import { emit, on, state } from "./state.js";

/** frame: {openNew, showSidebar(show), sidebarShown()}. */
export function initHeader(frame) {
  const kept = () => Boolean(state.current?.messages.size) && !state.current.temporary;

  function titleMenu() {
    const c = currentRow();
    openMenu($("title-button"), [
      { label: t("list.rename"), icon: "edit", run: () => { frame.showSidebar(true); rename(c); } },
      { label: t(c.pinned ? "list.unpin" : "list.pin"), icon: "pin", run: () => change([c], { pinned: !c.pinned }) },
      { label: t("list.tags"), icon: "tag", run: () => editTags([c]) },
      { label: t("projects.move"), icon: "folder", run: () => move([c], $("title-button")) },
      { label: t("list.share"), icon: "share", run: () => emit("share", c) },
      { label: t("list.export"), icon: "export", run: () => emit("export-chosen", []) },
      { line: true },
      { label: t(c.archived ? "list.unarchive" : "list.archive"), icon: "archive", run: () => change([c], { archived: !c.archived }) },
      { label: t("list.delete"), icon: "trash", bad: true, run: () => change([c], { trashed: true }) },
    ]);
  }

  function draw() {
    $("title-button").disabled = !kept();
    $("share").hidden = !kept();
    const fresh = !state.current?.messages.size;
    $("temporary").hidden = !fresh && !state.current?.temporary;
    $("temporary").setAttribute("aria-pressed", String(Boolean(state.temporary)));
    const main = document.querySelector(".main");
    main.classList.toggle("is-temporary", Boolean(state.temporary));
    $("temporary-note").hidden = !state.temporary;
    $("welcome-model").hidden = state.temporary;
    main.classList.toggle("is-new", fresh && !/^#\/c\//.test(location.hash));
  }

  $("title-button").addEventListener("click", titleMenu);
  $("share").addEventListener("click", () => emit("share", state.current));
  $("new-chat-top").addEventListener("click", frame.openNew);
  $("temporary").addEventListener("click", () => emit("temporary", !state.temporary));
  for (const name of ["thread-drawing", "title", "temporary-changed"]) on(name, draw);
  draw();
}
