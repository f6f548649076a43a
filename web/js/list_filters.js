// The menu that narrows the list. It writes into the search box what could be typed there.

import { openMenu } from "./dom.js";
import { t } from "./i18n.js";
import { hasFilter, toggleFilter } from "./list_query.js";
import { allTags } from "./tags.js";

const MOST_TAGS = 20; // others are typed

/** The day that was so many days ago, as YYYY-MM-DD in the reader's time. */
function daysAgo(days) {
  const d = new Date(Date.now() - days * 86400000);
  return [d.getFullYear(), String(d.getMonth() + 1).padStart(2, "0"), String(d.getDate()).padStart(2, "0")].join("-");
}

export async function filtersMenu(button, typed, setQuery) {
  let tags = [];
  try { tags = (await allTags()).slice(0, MOST_TAGS); } catch { /* the others still work */ }
  const item = (label, icon, name, value) => {
    const checked = hasFilter(typed, name, value);
    return { label, icon: checked ? "check" : icon, checked, run: () => setQuery(toggleFilter(typed, name, value)) };
  };
  openMenu(button, [
    item(t("list.filterPinned"), "pin", "is", "pinned"),
    item(t("list.filterWeek"), "none", "after", daysAgo(7)),
    item(t("list.filterMonth"), "none", "after", daysAgo(30)),
    ...tags.map((tag) => item(tag, "tag", "tag", tag)),
  ]);
}
