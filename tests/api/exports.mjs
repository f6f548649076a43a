// Small exports of other programs, in the form in which these write them, and ZIP archives with what one likes in them.
import zlib from 'node:zlib';
import { crc32 } from './crc32.mjs';

export const chatgpt = (over = {}) => ({
  id: 'gpt-1', conversation_id: 'gpt-1', title: 'Weather', create_time: 1700000000.5, update_time: 1700000100, current_node: 'n6', is_archived: true,
  mapping: {
    root: { id: 'root', message: null, parent: null, children: ['s'] },
    s: { id: 's', parent: 'root', children: ['n1'], message: { author: { role: 'system' }, create_time: null, content: { content_type: 'text', parts: [''] }, metadata: { is_visually_hidden_from_conversation: true } } },
    n1: { id: 'n1', parent: 's', children: ['n2', 'n7'], message: { author: { role: 'user' }, create_time: 1700000001, content: { content_type: 'multimodal_text', parts: [{ content_type: 'image_asset_pointer', asset_pointer: 'file-service://x' }, 'How is the weather?'] } } },
    n2: { id: 'n2', parent: 'n1', children: ['n3'], message: { author: { role: 'assistant' }, create_time: 1700000002, content: { content_type: 'thoughts', thoughts: [{ summary: 'Looking', content: 'I look it up.' }] } } },
    n3: { id: 'n3', parent: 'n2', children: ['n4'], message: { author: { role: 'assistant' }, recipient: 'web', create_time: 1700000003, content: { content_type: 'code', text: '{"q":"weather"}' } } },
    n4: { id: 'n4', parent: 'n3', children: ['n6'], message: { author: { role: 'tool', name: 'web' }, create_time: 1700000004, content: { content_type: 'tether_browsing_display', result: 'sunny' } } },
    n6: { id: 'n6', parent: 'n4', children: [], message: { author: { role: 'assistant' }, recipient: 'all', create_time: 1700000005, content: { content_type: 'text', parts: ['It is sunny.\ue200cite\ue202turn0\ue201'] }, metadata: { model_slug: 'gpt-5' } } },
    n7: { id: 'n7', parent: 'n1', children: [], message: { author: { role: 'assistant' }, recipient: 'all', create_time: 1700000006, content: { content_type: 'text', parts: ['Another answer'] }, metadata: { model_slug: 'gpt-4', finish_details: { type: 'interrupted' } } } },
  }, ...over,
});

export const claude = (over = {}) => ({
  uuid: 'cl-1', name: 'Files', created_at: '2026-01-02T03:04:05.678000Z', updated_at: '2026-01-02T03:05:00Z', account: { uuid: 'a' },
  chat_messages: [
    { uuid: 'm1', sender: 'human', text: 'Read it', created_at: '2026-01-02T04:04:06+01:00', content: [{ type: 'text', text: 'Read it' }], attachments: [{ file_name: 'a.txt', extracted_content: 'inside' }], files: [] },
    { uuid: 'm2', sender: 'assistant', text: '', created_at: '2026-01-02T03:04:07Z', attachments: [], files: [],
      content: [{ type: 'thinking', thinking: 'Hm.' }, { type: 'text', text: 'I search.' }, { type: 'tool_use', id: 'tu1', name: 'search', input: { q: 'x' } },
        { type: 'tool_result', tool_use_id: 'tu1', content: [{ type: 'text', text: 'found' }] }, { type: 'text', text: 'Done.' }] },
    { uuid: 'm3', sender: 'human', text: 'Thanks', created_at: '2026-01-02T03:04:08Z', content: [], attachments: [], files: [] },
  ], ...over,
});

export const openwebui = (over = {}) => ({
  id: 'ow-1', user_id: 'u', title: 'Zahlen', created_at: 1710000000, updated_at: 1710000500, archived: false, pinned: true, meta: { tags: ['maths', 'home'] },
  chat: {
    title: 'Zahlen', params: { system: 'Be short.' }, models: ['m'],
    history: {
      currentId: 'b2',
      messages: {
        a: { id: 'a', parentId: null, childrenIds: ['b1', 'b2'], role: 'user', content: '1+1?', timestamp: 1710000001 },
        b1: { id: 'b1', parentId: 'a', childrenIds: [], role: 'assistant', content: '3', model: 'm', done: true, timestamp: 1710000002 },
        b2: { id: 'b2', parentId: 'a', childrenIds: [], role: 'assistant', model: 'm', done: true, timestamp: 1710000003,
          content: '<details type="reasoning" done="true" duration="2">\n<summary>Thought for 2 seconds</summary>\n&gt; one &amp; one\n&gt; is two\n</details>\n2' },
      },
    },
  }, ...over,
});

export const llamacpp = (over = {}) => ({
  conv: { id: 'll-1', name: 'Local', lastModified: 1720000009000, currNode: 'c' },
  messages: [
    { id: 'r', convId: 'll-1', type: 'root', role: 'system', content: '', parent: null, children: ['s'], timestamp: 1720000000000 },
    { id: 's', convId: 'll-1', type: 'system', role: 'system', content: 'You are kind.', parent: 'r', children: ['b'], timestamp: 1720000000001 },
    { id: 'b', convId: 'll-1', type: 'text', role: 'user', content: 'Hi', parent: 's', children: ['c'], timestamp: 1720000000002, extra: [{ type: 'textFile', name: 'n.md', content: '```\nx\n```' }] },
    { id: 'c', convId: 'll-1', type: 'text', role: 'assistant', content: 'Hello', thinking: 'greet', parent: 'b', children: [], timestamp: 1720000000003, model: 'q' },
  ], ...over,
});

const libre = (messageId, parentMessageId, over) => ({ messageId, parentMessageId, conversationId: 'lc-1', endpoint: 'openAI', sender: 'User', isCreatedByUser: false, error: false, unfinished: false,
  createdAt: `2026-03-04T05:06:0${messageId.slice(1)}.000Z`, updatedAt: '2026-03-04T05:07:00.000Z', model: null, text: '', ...over });
const libreAnswers = [
  libre('m2', 'm1', { sender: 'GPT-4', model: 'gpt-4', text: 'Drier than it was.' }),
  libre('m3', 'm1', { sender: 'Forecaster', model: 'agent_x1', content: [{ type: 'think', think: 'I look it up.' }, { type: 'text', text: { value: 'One moment.' } },
    { type: 'tool_call', tool_call: { id: 'call_1', name: 'weather', args: '{"at":"sea"}', output: 'sunny', type: 'tool_call', progress: 1 } }, { type: 'text', text: 'It is sunny.' },
    { type: 'image_file', image_file: { file_id: 'f2', filename: 'map.png' } }] }),
];
const libreQuestion = libre('m1', '00000000-0000-0000-0000-000000000000', { isCreatedByUser: true, text: 'How is the weather?', files: [{ file_id: 'f1', filename: 'sky.jpg', type: 'image/jpeg' }] });
const libreEnd = [libre('m4', 'm3', { isCreatedByUser: true, text: 'And tomorrow?' }), libre('m5', 'm4', { model: 'gpt-4', sender: 'GPT-4', text: 'It will', unfinished: true })];
const libreHead = { conversationId: 'lc-1', endpoint: 'openAI', title: 'Sun', exportAt: '05:08:00 GMT+0000', branches: true, recursive: false, options: { model: 'gpt-4', promptPrefix: 'Be brief.' } };
export const librechat = (over = {}) => ({ ...libreHead, messages: [libreQuestion, ...libreAnswers, ...libreEnd], ...over });
/** The same chat, exported as a tree. */
export const librechatTree = (over = {}) => ({ ...libreHead, recursive: true,
  messagesTree: [{ ...libreQuestion, children: [{ ...libreAnswers[0], children: [] }, { ...libreAnswers[1], children: [{ ...libreEnd[0], children: [{ ...libreEnd[1], children: [] }] }] }] }], ...over });

export const openai = { messages: [{ role: 'system', content: 'S' }, { role: 'user', content: 'ask' }, { role: 'assistant', content: 'answer' }] };

const message = (id, parent, role, content, over = {}) => ({
  id, parent, role, status: 'done', content, reasoning: '', tool_calls: null, tool_call_id: null, error: null, model: null, usage: null, timings: null,
  created_at: 1730000000000 + id, finished_at: 1730000000000 + id, attachments: [], ...over,
});
export const own = (over = {}) => ({
  key: 'own.1', title: 'Mine', created_at: 1730000000000, updated_at: 1730000000009, pinned: true, archived: false, trashed_at: null, fork_of: null,
  tags: ['x'], settings: { temperature: 0.5 }, leaf: 2, messages: [message(1, null, 'user', 'q'), message(2, 1, 'assistant', 'a', { model: 'm', usage: { prompt_tokens: 3, cached_tokens: 1, completion_tokens: 2 }, timings: { ttft_ms: 1.50 } })],
  ...over,
});
export const ownFile = (...conversations) => ({ schema: 'sluice-export', version: 1, exported_at: 1730000001000, conversations });

/** A ZIP archive. Entries: {name, data, flags, mode (Unix), stored, claim: the size it states}; repeat: how often all are listed. */
export function zip(entries, { count, repeat = 1 } = {}) {
  const parts = [];
  const list = [];
  let at = 0;
  for (const { name, data = '', flags = 0, mode = 0o100644, stored = false, claim } of entries) {
    const raw = Buffer.from(data);
    const packed = stored ? raw : zlib.deflateRawSync(raw);
    const file = Buffer.from(name);
    const common = Buffer.alloc(26); // version needed ... extra length
    common.writeUInt16LE(20, 0);
    common.writeUInt16LE(flags, 2);
    common.writeUInt16LE(stored ? 0 : 8, 4);
    common.writeUInt32LE(crc32(raw), 10);
    common.writeUInt32LE(packed.length, 14);
    common.writeUInt32LE(claim ?? raw.length, 18);
    common.writeUInt16LE(file.length, 22);
    const tail = Buffer.alloc(14);
    tail.writeUInt32LE((mode << 16) >>> 0, 6);
    tail.writeUInt32LE(at, 10);
    const local = Buffer.concat([Buffer.from('PK\x03\x04', 'latin1'), common, file, packed]);
    list.push(Buffer.from('PK\x01\x02\x14\x03', 'latin1'), common, tail, file);
    parts.push(local);
    at += local.length;
  }
  const once = Buffer.concat(list);
  const index = Buffer.alloc(once.length * repeat, once);
  const end = Buffer.alloc(18);
  end.writeUInt16LE((count ?? entries.length * repeat) & 0xffff, 4);
  end.writeUInt16LE((count ?? entries.length * repeat) & 0xffff, 6);
  end.writeUInt32LE(index.length, 8);
  end.writeUInt32LE(at, 12);
  return Buffer.concat([...parts, index, Buffer.from('PK\x05\x06', 'latin1'), end]);
}
