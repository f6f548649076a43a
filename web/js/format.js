// Numbers and dates for people.

export function rate(tokensPerSecond) {
  if (!(tokensPerSecond > 0)) return "";
  return `${tokensPerSecond >= 100 ? Math.round(tokensPerSecond) : tokensPerSecond.toFixed(1)} tok/s`;
}

export function seconds(ms) {
  if (!(ms >= 0)) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 60000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}

export function count(n) {
  return n.toLocaleString("en");
}

/** "Today", "Yesterday", "This week", or the month. */
export function dayGroup(ms, now = new Date()) {
  const date = new Date(ms);
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  if (ms >= midnight) return "Today";
  if (ms >= midnight - 86400000) return "Yesterday";
  if (ms >= midnight - 6 * 86400000) return "This week";
  return date.toLocaleDateString("en", { month: "long", year: "numeric" });
}
