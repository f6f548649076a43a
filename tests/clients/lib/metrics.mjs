/** Counters of the server's /metrics, summed over their labels. */
export async function counters(s, ...names) {
  const text = await s.metrics();
  return names.map((name) => [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm'))].reduce((sum, m) => sum + Number(m[1]), 0));
}
