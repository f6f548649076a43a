// The upstream of relay.mjs: "TOKENS PAUSE" in the message orders so many pieces, so many milliseconds apart; each holds its time.
import http from 'node:http';

const now = () => performance.timeOrigin + performance.now();
const chunk = (delta, finish = null) => `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
const server = http.createServer(async (req, res) => {
  let text = '';
  for await (const d of req) text += d;
  if (req.method === 'GET') { res.end('{"data":[]}'); return; }
  const [tokens, pause] = JSON.parse(text).messages.at(-1).content.split(' ').map(Number);
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  res.socket.setNoDelay(true);
  let n = 0;
  const step = () => {
    if (res.destroyed) return;
    if (n++ < tokens) {
      res.write(chunk({ content: `@${now().toFixed(3)} ` }));
      if (pause) { setTimeout(step, pause); return; }
      step();
      return;
    }
    res.write(chunk({}, 'stop'));
    res.write(`data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 5, completion_tokens: tokens } })}\n\n`);
    res.end('data: [DONE]\n\n');
  };
  if (pause) setTimeout(step, Math.random() * pause); // streams do not beat together
  else step();
});
server.listen(0, '127.0.0.1', () => process.stdout.write(`${server.address().port}\n`));
