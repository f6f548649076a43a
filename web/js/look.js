// What this device remembers of looks: light, dark or as the system, the size of letters, the width of a chat. A script of its own that
// imports nothing, so that it takes effect before the catalogue of texts is here: nobody sees the other theme first.

const THEMES = ["system", "light", "dark"];
const system = matchMedia("(prefers-color-scheme: dark)");

/** The theme that was chosen, how large the letters are ("small", "large") and how wide a chat is ("wide"); "": as usual. */
export const looks = { theme: "system", text: "", width: "" };

const keyOf = (name) => (name === "theme" ? name : `look-${name}`);

function apply(name) {
  const { dataset } = document.documentElement;
  if (name !== "theme") {
    if (looks[name]) dataset[name] = looks[name];
    else delete dataset[name];
    return;
  }
  dataset.theme = looks.theme === "system" ? (system.matches ? "dark" : "light") : looks.theme;
  document.querySelector("meta[name=theme-color]")?.setAttribute("content", getComputedStyle(document.body).backgroundColor);
}

export function chooseLook(name, value) {
  looks[name] = value;
  try { localStorage.setItem(keyOf(name), value); } catch { /* private mode */ }
  apply(name);
}

for (const name of Object.keys(looks)) {
  try { looks[name] = localStorage.getItem(keyOf(name)) || looks[name]; } catch { /* private mode */ }
  if (name === "theme" && !THEMES.includes(looks.theme)) looks.theme = "system";
  apply(name);
}
system.addEventListener("change", () => apply("theme"));
