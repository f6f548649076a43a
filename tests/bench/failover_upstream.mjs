// One upstream of failover.mjs, a process that can be killed: node failover_upstream.mjs [PORT]. It streams 12 pieces, 25 ms apart, and says as usage what a
// server with a prefix cache would: words are tokens, blocks of 16 are kept from every prompt and answer that it has seen.
import { FakeUpstream } from '../api/upstream_rig.mjs';

const BLOCK = 16, words = Array.from({ length: 12 }, (_, i) => `w${i} `);

class Caching extends FakeUpstream {
  blocks = new Set();
  async openai(res, body) {
    const prompt = body.messages.flatMap((m) => `${m.role} ${m.content}`.trim().split(/\s+/));
    const chain = (list) => { const all = []; for (let i = BLOCK; i <= list.length; i += BLOCK) all.push(list.slice(0, i).join(' ')); return all; };
    let cached = 0;
    for (const key of chain(prompt)) { if (!this.blocks.has(key)) break; cached += BLOCK; }
    for (const key of chain([...prompt, 'assistant', ...words.join('').trim().split(' ')])) this.blocks.add(key);
    this.knobs = { words, delay: 25, usage: { prompt_tokens: prompt.length, completion_tokens: words.length, prompt_tokens_details: { cached_tokens: cached } } };
    await super.openai(res, body);
  }
}
const u = await Caching.open({}, Number(process.argv[2] ?? 0));
u.server.ref(); // it is all that this process does
process.stdout.write(`${u.port}\n`);
