// Events of the page's answer streams, for the tests of conversations.

/** Yields {event, data} until the stream ends. */
export async function* events(response) {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let held = '';
  for await (const bytes of response.body) {
    held += decoder.decode(bytes, { stream: true });
    for (let end; (end = held.indexOf('\n\n')) >= 0; held = held.slice(end + 2)) {
      const lines = held.slice(0, end).split('\n').filter((l) => !l.startsWith(':'));
      if (!lines.length) continue;
      if (lines.length !== 2 || !lines[0].startsWith('event: ') || !lines[1].startsWith('data: ')) throw new Error(`not an event: ${lines}`);
      yield { event: lines[0].slice(7), data: JSON.parse(lines[1].slice(6)) };
    }
  }
}

/** A whole stream: names in order, the joined text, first and last event. onEvent may return true to leave. */
export async function follow(response, onEvent) {
  const out = { status: response.status, names: [], content: '', reasoning: '', deltas: 0, rates: [] };
  if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
    out.body = await response.json();
    return out;
  }
  try {
    for await (const { event, data } of events(response)) {
      if (out.last) throw new Error(`${event} after ${out.names.at(-1)}`);
      out.names.push(event);
      if (event === 'start') {
        out.start = data;
        out.content = '';
        out.reasoning = '';
      } else if (event === 'delta') {
        out.content += data.content ?? '';
        out.reasoning += data.reasoning ?? '';
        out.n = data.n;
        out.rates.push(data.tokens_per_second);
        out.deltas++;
      } else if (event === 'done' || event === 'error') {
        out.last = data;
      }
      if (await onEvent?.({ event, data, out })) break;
    }
  } catch (error) {
    if (error.name !== 'AbortError' && error.code !== 'UND_ERR_SOCKET' && error.message !== 'terminated') throw error;
    out.broken = true;
  }
  const { status, content, reasoning } = out.start?.message ?? {};
  if (out.last && status !== 'running' && content + reasoning === '' && out.content + out.reasoning !== '') throw new Error(`it began as ${status}, before its text came`);
  return out;
}
