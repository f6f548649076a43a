// What the chat page asks the server first, asked before the page's other modules are here: over a slow line the answers come while those are
// still read, and none waits for another one's. main.js hands them to api.js; who signed in here once has "here" kept.

const FIRST = ["/api/conversations?limit=100&pinned=0&project=none", "/api/conversations?pinned=1&limit=199", "/api/projects", "/api/status"]; // as list_pages.js, project_doors.js and status.js ask
const chat = /^#\/c\/(\d+)/.exec(location.hash)?.[1]; // as history.js asks

export const answers = new Map(); // path -> Promise of a Response

function ask(path) {
  const answer = fetch(path, { headers: { Accept: "application/json" }, cache: "no-store" });
  answer.catch(() => {}); // told to who takes it
  answers.set(path, answer);
}

/** Whether somebody is signed in here, for the next time. */
export function remember(someone) {
  try {
    if (someone) localStorage.setItem("here", "1");
    else localStorage.removeItem("here");
  } catch { /* private mode */ }
}

let here = null;
try { here = localStorage.getItem("here"); } catch { /* private mode */ }
if (!location.hash.startsWith("#/invite/")) ask("/api/session");
if (answers.size && here) {
  if (chat) ask(`/api/conversations/${chat}?texts=80`);
  FIRST.forEach(ask);
}
