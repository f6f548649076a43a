// An agent's loop with Ollama's package, streamed: the model writes a file, then says so.
import { writeFileSync } from 'node:fs';
import { Ollama } from 'ollama';

const client = new Ollama({ host: process.env.OLLAMA_HOST, headers: { Authorization: `Bearer ${process.env.OLLAMA_API_KEY}` } });
const string = { type: 'string' };
const tools = [{ type: 'function', function: { name: 'write_file', description: 'Write a file', parameters: { type: 'object', properties: { path: string, text: string }, required: ['path', 'text'] } } }];
const messages = [{ role: 'user', content: process.argv[2] }];
for (;;) {
  const message = { role: 'assistant', content: '', thinking: '', tool_calls: [] };
  for await (const part of await client.chat({ model: 'demo-model', messages, tools, think: true, stream: true })) {
    message.content += part.message.content;
    message.thinking += part.message.thinking ?? '';
    message.tool_calls.push(...(part.message.tool_calls ?? []));
  }
  messages.push(message);
  if (!message.tool_calls.length) {
    console.log(message.thinking, message.content);
    break;
  }
  for (const { function: f } of message.tool_calls) {
    writeFileSync(f.arguments.path, f.arguments.text);
    messages.push({ role: 'tool', tool_name: f.name, content: 'written' });
  }
}
