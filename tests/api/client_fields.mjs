// What clients of other servers send: fields, each with a value of its own type. Names and values as the references of OpenAI,
// Anthropic, vLLM, SGLang, llama.cpp, Ollama, LM Studio, OpenRouter, LiteLLM and text-generation-webui have them.
const schema = { type: 'object', properties: { a: { type: 'string' } } };
const user = [{ role: 'user', content: 'hi' }];

export const CLIENT_FIELDS = {
  // sampling
  min_tokens: 1, repeat_penalty: 1.1, repetition_penalty: 1.1, typical_p: 0.9, typical: 0.9, top_a: 0.1, tfs_z: 0.9, mirostat: 2, mirostat_tau: 5, mirostat_eta: 0.1,
  repeat_last_n: 64, samplers: ['top_k', 'temperature'], dynatemp_range: 0.2, dynatemp_exponent: 1, xtc_probability: 0.5, xtc_threshold: 0.1, dry_multiplier: 0.8,
  dry_base: 1.75, dry_allowed_length: 2, dry_penalty_last_n: -1, backend_sampling: true, min_keep: 1, top_k: 40, min_p: 0.05, seed: 7, random_seed: 7, presence_penalty: 0.5,
  frequency_penalty: 0.5, logit_bias: { 5: 1 }, use_beam_search: false, length_penalty: 1, best_of: 1, early_stopping: false, logits_processors: [],
  bad_words: ['x'], allowed_token_ids: [1, 2], top_n_sigma: 1, ignore_eos: true,
  // how long, and where it ends
  n_predict: 8, num_predict: 8, max_tokens: -1, max_completion_tokens: 8, stop: ['x'], stop_token_ids: [1], stop_sequences: ['x'], include_stop_str_in_output: true,
  skip_special_tokens: false, spaces_between_special_tokens: false, n: 1,
  // the prompt
  add_generation_prompt: true, continue_final_message: false, echo: true, truncate_prompt_tokens: 5, documents: [{ text: 'x' }], chat_template: '{{ x }}',
  mm_processor_kwargs: {}, prompt: { id: 'pmpt_1' }, system: 'be brief', template: '{{ .Prompt }}', raw: false, mode: 'chat', character: 'x', instruction_template: 'ChatML',
  truncation_length: 2048, cache_control: { type: 'ephemeral' }, context_management: { edits: [{ type: 'clear_tool_uses_20250919' }] }, images: [], suffix: 'x',
  messages: user, input: 'x', instructions: 'x', truncation: 'auto', n_keep: 4, transforms: ['middle-out'],
  // the answer's form
  json_schema: schema, guided_json: schema, guided_regex: '[0-9]+', guided_choice: ['yes', 'no'], guided_grammar: 'root ::= "x"', structured_outputs: { json: schema },
  regex: '[0-9]+', ebnf: 'root ::= "x"', grammar: 'root ::= "x"', response_format: { type: 'text' }, format: 'json', prediction: { type: 'content', content: 'x' },
  modalities: ['text', 'audio'], audio: { voice: 'alloy', format: 'mp3' },
  // what it shows
  timings_per_token: true, post_sampling_probs: true, n_probs: 2, return_tokens: true, return_token_ids: true, prompt_logprobs: 1, logprobs: true, top_logprobs: 2,
  include: ['message.output_text.logprobs'], stream_options: { include_usage: true }, usage: { include: true },
  // thinking
  reasoning_format: 'deepseek', thinking_forced_open: false, include_reasoning: true, separate_reasoning: true, verbosity: 'low', reasoning_effort: 'low',
  reasoning: { effort: 'low' }, thinking: { type: 'enabled', budget_tokens: 2000 }, thinking_budget: 100, enable_thinking: true, think: true,
  // tools
  parse_tool_calls: true, functions: [{ name: 'f', parameters: {} }], function_call: 'auto', parallel_tool_calls: true, web_search_options: {}, plugins: [{ id: 'web' }],
  mcp_servers: [], tools: [], tool_choice: 'auto',
  // how it is computed
  num_ctx: 4096, cache_prompt: true, slot_id: 0, id_slot: 0, lora: [{ id: 0, scale: 1 }], priority: 1, kv_transfer_params: {}, request_id: 'r1', keep_alive: '5m',
  options: { num_ctx: 4096 }, draft_model: 'x', ttl: 300, preset: 'x', speed: 'fast', background: true, vllm_xargs: {},
  // routers, labels
  moderation: { mode: 'auto' }, store: true, metadata: { a: 'b' }, service_tier: 'auto', user: 'u', safety_identifier: 'u', prompt_cache_key: 'k', prompt_cache_retention: '24h',
  provider: { order: ['x'] }, models: ['a', 'b'], route: 'fallback', session_id: 's', chat_id: 'c', extra_body: {}, client_metadata: { a: 'b' }, trace_id: 't', tags: ['a'],
  fallbacks: ['x'], mock_response: 'x', caching: true, conversation: 'conv_1',
};

// Where an endpoint has another form of the same name, or a field goes only with another.
const OF_ENDPOINT = {
  chat: { top_logprobs: { logprobs: true, top_logprobs: 2 } },
  completions: { logprobs: { logprobs: 2 }, prompt: { prompt: 'hi' } },
  responses: { n_predict: { n_predict: 16 }, num_predict: { num_predict: 16 } }, // as long as max_output_tokens says
  messages: { tool_choice: { tool_choice: { type: 'auto' } }, system: { system: 'be brief' } },
  'Ollama chat': { top_logprobs: { logprobs: true, top_logprobs: 2 } },
  'Ollama generate': { top_logprobs: { logprobs: true, top_logprobs: 2 }, prompt: { prompt: 'hi' }, suffix: {}, images: {}, system: { system: 'x' } },
  llamacpp: { prompt: { prompt: 'hi' }, max_tokens: { max_tokens: 8 }, num_predict: { num_predict: 8 } }, // as long as n_predict says
};

/** What a body gets for the field `name`. */
export function clientField(endpoint, name) {
  if (OF_ENDPOINT[endpoint]?.[name]) return OF_ENDPOINT[endpoint][name];
  return { [name]: CLIENT_FIELDS[name], ...(name === 'stream_options' && { stream: true }) };
}
