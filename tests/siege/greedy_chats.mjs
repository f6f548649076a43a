// Chats with greedy answers that a server without any cache has given: what is right.
const WORDS = 'river mill bridge town winter letter garden stone window market summer harbour lantern orchard captain morning'.split(' ');
const QUESTIONS = ['What was that about?', 'Who was there?', 'And what then?'];

/** n chats of some turns: {messages, answers}; answers[i] is said after messages[0 .. 2 i]. */
export async function chatsOf(server, n, random) {
  const chats = [];
  for (let i = 0; i < n; i++) {
    const words = Array.from({ length: 80 + Math.floor(random() * 500) }, () => WORDS[Math.floor(random() * WORDS.length)]).join(' ');
    const chat = { messages: [{ role: 'user', content: `Story ${i}: ${words}.` }], answers: [] };
    for (const question of QUESTIONS) {
      const r = await server.chat(salted(chat, chat.answers.length));
      if (r.status !== 200) throw new Error(`${r.status} ${r.text}`);
      chat.answers.push(r.body.choices[0].message.content ?? '');
      chat.messages.push({ role: 'assistant', content: chat.answers.at(-1) }, { role: 'user', content: question });
    }
    chats.push(chat);
  }
  return chats;
}

/** The request of a turn, whose cache is that of the salt alone. */
export const salted = (chat, turn, salt) => ({ messages: chat.messages.slice(0, 2 * turn + 1), temperature: 0, max_tokens: 12, ...(salt && { cache_salt: salt }) });
