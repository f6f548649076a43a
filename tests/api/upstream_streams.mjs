// Streams as servers of others write them, by their documents, sources and issue threads: what each adds to OpenAI's form or leaves out.
// {name, dialect, raw, content, reasoning, calls, finish, usage: [prompt, cached, completion], error: the reason}
const sse = (...list) => list.map((o) => `data: ${typeof o === 'string' ? o : JSON.stringify(o)}\n\n`).join('');
const named = (...list) => list.map((o) => `event: ${o.type}\ndata: ${JSON.stringify(o)}\n\n`).join('');
const lines = (...list) => list.map((o) => `${JSON.stringify(o)}\n`).join('');

const vllm = (delta, more = {}, top = {}) => ({ id: 'chatcmpl-9c1f', object: 'chat.completion.chunk', created: 1762000000, model: 'Qwen/Qwen3-8B',
  choices: [{ index: 0, delta, logprobs: null, finish_reason: null, token_ids: null, ...more }], ...top });
const sglang = (delta, more = {}) => ({ id: 'fea45bfa', object: 'chat.completion.chunk', created: 1756216933, model: 'm',
  choices: [{ index: 0, delta: { role: null, content: null, reasoning_content: null, tool_calls: null, ...delta }, logprobs: null, finish_reason: null, matched_stop: null, ...more }], usage: null });
const message = (usage) => ({ type: 'message_start', message: { id: 'msg_01', type: 'message', role: 'assistant', model: 'claude', content: [], stop_reason: null, stop_sequence: null, usage } });
const ollama = (m, more = {}) => ({ model: 'qwen3', created_at: '2025-10-26T17:15:24.097767Z', message: { role: 'assistant', content: '', ...m }, done: false, ...more });

export const streams = [
  { name: 'vLLM: reasoning, then text whose last piece has the finish; usage in a chunk without choices', dialect: 'openai',
    raw: sse(vllm({ role: 'assistant', content: '' }, {}, { prompt_token_ids: null }), vllm({ reasoning: 'We add.', reasoning_content: 'We add.' }), vllm({ content: 'It is ' }), vllm({ content: 'four.' }, { finish_reason: 'stop', stop_reason: 151645 }),
      { id: 'chatcmpl-9c1f', object: 'chat.completion.chunk', created: 1762000000, model: 'Qwen/Qwen3-8B', choices: [], usage: { prompt_tokens: 20, total_tokens: 29, completion_tokens: 9, prompt_tokens_details: { cached_tokens: 16 } } }, '[DONE]'),
    content: 'It is four.', reasoning: 'We add.', finish: 'stop', usage: [20, 16, 9] },
  { name: 'vLLM: a call, its finish by a stop string\'s name, details null', dialect: 'openai',
    raw: sse(vllm({ role: 'assistant', content: '' }), vllm({ tool_calls: [{ id: 'chatcmpl-tool-1', type: 'function', index: 0, function: { name: 'look' } }] }), vllm({ tool_calls: [{ index: 0, function: { arguments: '{"at": ' } }] }),
      vllm({ tool_calls: [{ index: 0, function: { arguments: '"sea"}' } }] }), vllm({ content: '' }, { finish_reason: 'tool_calls', stop_reason: null }),
      { id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [], usage: { prompt_tokens: 7, total_tokens: 12, completion_tokens: 5, prompt_tokens_details: null } }, '[DONE]'),
    content: '', calls: [['look', '{"at": "sea"}']], finish: 'tool_calls', usage: [7, 0, 5] },
  { name: 'vLLM: an error in the middle, and [DONE] all the same', dialect: 'openai',
    raw: sse(vllm({ role: 'assistant', content: '' }), vllm({ content: 'It ' }), { error: { object: 'error', message: 'EngineCore encountered an issue', type: 'InternalServerError', param: null, code: 500 } }, '[DONE]'),
    error: 'upstream_error' },
  { name: 'vLLM: nothing but [DONE], as of a generation that failed before its first token', dialect: 'openai', raw: sse('[DONE]'), error: 'upstream_broken' },
  { name: 'SGLang: every member of a delta is there and null; matched_stop; usage last', dialect: 'openai',
    raw: sse(sglang({ role: 'assistant', content: '' }), sglang({ reasoning_content: '2' }), sglang({ reasoning_content: '+2' }), sglang({ content: '4' }), sglang({}, { finish_reason: 'stop', matched_stop: 151645 }),
      { id: 'fea45bfa', object: 'chat.completion.chunk', created: 1756216933, model: 'm', choices: [], usage: { prompt_tokens: 9, total_tokens: 14, completion_tokens: 5, prompt_tokens_details: null, reasoning_tokens: 2 } }, '[DONE]'),
    content: '4', reasoning: '2+2', finish: 'stop', usage: [9, 0, 5] },
  { name: 'SGLang: cut by the length, no usage', dialect: 'openai', raw: sse(sglang({ role: 'assistant', content: 'a' }), sglang({ content: 'b' }), sglang({}, { finish_reason: 'length', matched_stop: null }), '[DONE]'), content: 'ab', finish: 'length' },
  { name: 'routers: comments while they wait, error null in each chunk, usage beside the finish, no [DONE]', dialect: 'openai',
    raw: `: OPENROUTER PROCESSING\n\n${sse({ id: 'gen-1', provider: 'X', model: 'm', object: 'chat.completion.chunk', created: 1, error: null, choices: [{ index: 0, delta: { role: 'assistant', content: 'ok', reasoning: null }, finish_reason: null, native_finish_reason: null, logprobs: null }] },
      { id: 'gen-1', provider: 'X', model: 'm', object: 'chat.completion.chunk', created: 1, error: null, choices: [{ index: 0, delta: { content: '' }, finish_reason: 'stop', native_finish_reason: 'STOP' }], usage: { prompt_tokens: 3, completion_tokens: 1, cost: 0.0001 } })}`,
    content: 'ok', finish: 'stop', usage: [3, 0, 1] },
  { name: 'Azure: a first chunk of filter results without a delta', dialect: 'openai',
    raw: sse({ choices: [], created: 0, id: '', model: '', object: '', prompt_filter_results: [{ prompt_index: 0, content_filter_results: {} }] }, { choices: [{ content_filter_results: {}, delta: { content: 'yes', role: 'assistant' }, finish_reason: null, index: 0 }], object: 'chat.completion.chunk' },
      { choices: [{ content_filter_results: {}, delta: {}, finish_reason: 'content_filter', index: 0 }], object: 'chat.completion.chunk' }, '[DONE]'),
    content: 'yes', finish: 'stop' },
  { name: 'Anthropic: thinking with its signature, text, a call, pings, events that are new', dialect: 'anthropic',
    raw: named(message({ input_tokens: 25, cache_creation_input_tokens: 0, cache_read_input_tokens: 100, output_tokens: 1, service_tier: 'standard' }), { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '', signature: '' } }, { type: 'ping' },
      { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'Let me look.' } }, { type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: 'EqQBCgIYAhIM' } }, { type: 'content_block_stop', index: 0 },
      { type: 'content_block_start', index: 1, content_block: { type: 'redacted_thinking', data: 'EmwKAhgBEgy' } }, { type: 'content_block_stop', index: 1 }, { type: 'content_block_start', index: 2, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 2, delta: { type: 'text_delta', text: 'A moment.' } }, { type: 'content_block_delta', index: 2, delta: { type: 'citations_delta', citation: {} } }, { type: 'content_block_stop', index: 2 },
      { type: 'content_block_start', index: 3, content_block: { type: 'tool_use', id: 'toolu_01', name: 'look', input: {} } }, { type: 'content_block_delta', index: 3, delta: { type: 'input_json_delta', partial_json: '' } },
      { type: 'content_block_delta', index: 3, delta: { type: 'input_json_delta', partial_json: '{"at": "se' } }, { type: 'content_block_delta', index: 3, delta: { type: 'input_json_delta', partial_json: 'a"}' } }, { type: 'content_block_stop', index: 3 },
      { type: 'something_new', why: 'not' }, { type: 'message_delta', delta: { stop_reason: 'tool_use', stop_sequence: null }, usage: { output_tokens: 89 } }, { type: 'message_stop' }),
    content: 'A moment.', reasoning: 'Let me look.', calls: [['look', '{"at": "sea"}']], finish: 'tool_calls', usage: [125, 100, 89] },
  { name: 'Anthropic: cut by max_tokens', dialect: 'anthropic',
    raw: named(message({ input_tokens: 5, output_tokens: 1 }), { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }, { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Once' } }, { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'max_tokens', stop_sequence: null }, usage: { output_tokens: 2 } }, { type: 'message_stop' }),
    content: 'Once', finish: 'length', usage: [5, 0, 2] },
  { name: 'Anthropic: overloaded in the middle', dialect: 'anthropic',
    raw: named(message({ input_tokens: 5, output_tokens: 1 }), { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }, { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'On' } }, { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }),
    error: 'upstream_error' },
  { name: 'Ollama: thinking, text, a call as an object, counts in the last line', dialect: 'ollama',
    raw: lines(ollama({ thinking: 'Hm. ' }), ollama({ thinking: 'Sea?' }), ollama({ content: 'Let me ' }), ollama({ content: 'look.' }), ollama({ tool_calls: [{ id: 'call_1', function: { index: 0, name: 'look', arguments: { at: 'sea' } } }] }),
      ollama({}, { done: true, done_reason: 'stop', total_duration: 8113331500, load_duration: 6396458, prompt_eval_count: 61, prompt_eval_duration: 398801000, eval_count: 24, eval_duration: 7690600000 })),
    content: 'Let me look.', reasoning: 'Hm. Sea?', calls: [['look', '{"at":"sea"}']], finish: 'tool_calls', usage: [61, 0, 24] },
  { name: 'Ollama: cut by the length; a prompt that was in its cache is not counted', dialect: 'ollama', raw: lines(ollama({ content: 'a' }), ollama({ content: 'b' }, { done: true, done_reason: 'length', eval_count: 2 })), content: 'ab', finish: 'length' },
  { name: 'Ollama: an error in the middle', dialect: 'ollama', raw: lines(ollama({ content: 'a' }), { error: 'an error was encountered while running the model: CUDA error' }), error: 'upstream_error' },
];
