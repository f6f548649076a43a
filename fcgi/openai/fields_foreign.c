/* chat_request.h: the parameters of other servers that have no effect here, each with the clause that its answer names.
 *
 * Sources: the references of OpenAI, Anthropic, vLLM, SGLang, llama.cpp, Ollama, LM Studio, OpenRouter and LiteLLM.
 * An endpoint's own table comes first: what stands there is done. */
#include <string.h>

#include "fcgi/openai/chat_request.h"

#define SAMPLER "this sampler is not implemented"
#define LOADING "the model is loaded by the server, not by a request"
#define TEMPLATE "the prompt is rendered by the model's own template"
#define ROUTING "requests are not routed to other models or providers"
#define TEXT_ONLY "the model reads and writes text only"
#define LABEL "labels of a request are not kept"
#define SCHEDULING "the scheduler shares the engine fairly between users"
#define DETAIL "the answer's form does not have it"
#define TOKENS "tokens are not filtered by it; logit_bias can forbid or favour them"
#define BACKEND "the server has one grammar engine, with its own white space"
#define OTHER_FORM "it belongs to another endpoint's form"

static const struct foreign_field foreign[] = {
    /* samplers */
    {"typical", "its name here is typical_p"}, {"top_a", SAMPLER}, {"tfs_z", SAMPLER}, {"tfs", SAMPLER}, {"mirostat", SAMPLER},
    {"mirostat_mode", SAMPLER}, {"mirostat_tau", SAMPLER}, {"mirostat_eta", SAMPLER}, {"samplers", SAMPLER},
    {"sampler_seq", SAMPLER}, {"dynatemp_range", SAMPLER}, {"dynatemp_exponent", SAMPLER}, {"dynamic_temperature", SAMPLER},
    {"xtc_probability", SAMPLER}, {"xtc_threshold", SAMPLER}, {"dry_multiplier", SAMPLER}, {"dry_base", SAMPLER},
    {"dry_allowed_length", SAMPLER}, {"dry_penalty_last_n", SAMPLER}, {"dry_sequence_breakers", SAMPLER},
    {"top_n_sigma", SAMPLER}, {"min_keep", SAMPLER}, {"epsilon_cutoff", SAMPLER}, {"eta_cutoff", SAMPLER},
    {"smoothing_factor", SAMPLER}, {"smoothing_curve", SAMPLER}, {"guidance_scale", SAMPLER}, {"negative_prompt", SAMPLER},
    {"penalty_alpha", SAMPLER}, {"do_sample", "temperature 0 is greedy"}, {"backend_sampling", SAMPLER},
    {"logits_processors", SAMPLER}, {"custom_logit_processor", SAMPLER}, {"custom_params", SAMPLER},
    {"repetition_penalty_range", "its name here is repeat_last_n"},
    {"penalize_nl", "penalties count every token alike"}, {"penalize_newline", "penalties count every token alike"},
    {"encoder_repetition_penalty", SAMPLER},
    {"no_repeat_ngram_size", SAMPLER}, {"presence_context_size", SAMPLER}, {"frequency_context_size", SAMPLER},
    {"repetition_context_size", SAMPLER},
    {"use_beam_search", "beams are not searched"}, {"length_penalty", "beams are not searched"},
    {"early_stopping", "beams are not searched"}, {"num_beams", "beams are not searched"},
    {"best_of", "every answer that is asked for is given"},
    /* tokens */
    {"ban_eos_token", "ignore_eos does this"}, {"spaces_between_special_tokens", "tokens are shown as they are"},
    {"add_bos_token", TEMPLATE}, {"add_special_tokens", TEMPLATE}, {"stop_regex", TOKENS},
    {"guided_decoding_backend", BACKEND}, {"guided_whitespace_pattern", BACKEND},
    {"structural_tag", "a grammar can hold the answer to a form"},
    /* what the answer shows */
    {"timings_per_token", "the answer's timings come at its end"}, {"post_sampling_probs", DETAIL}, {"n_probs", DETAIL},
    {"return_tokens", DETAIL}, {"return_token_ids", DETAIL}, {"return_tokens_as_token_ids", DETAIL},
    {"return_hidden_states", DETAIL}, {"return_prompt_text", DETAIL}, {"response_fields", DETAIL},
    {"include_reasoning", "reasoning is always given, apart from the content"},
    {"separate_reasoning", "reasoning is always given, apart from the content"},
    {"stream_reasoning", "reasoning is always given, apart from the content"},
    {"reasoning_format", "reasoning is always given, apart from the content"},
    {"thinking_forced_open", "the template decides where reasoning begins"},
    {"parse_tool_calls", "tool calls are always parsed"}, {"prompt_logprobs", "it goes with chats and completions"}, {"echo", DETAIL},
    {"logprobs", OTHER_FORM}, {"top_logprobs", OTHER_FORM}, {"suffix", "text is not completed in the middle"},
    /* the prompt */
    {"chat_template", TEMPLATE}, {"add_generation_prompt", TEMPLATE}, {"continue_final_message", TEMPLATE},
    {"documents", TEMPLATE}, {"template", TEMPLATE}, {"context", TEMPLATE}, {"instruction_template", TEMPLATE},
    {"instruction_template_str", TEMPLATE}, {"chat_template_str", TEMPLATE}, {"chat_instruct_command", TEMPLATE},
    {"character", TEMPLATE}, {"bot_name", TEMPLATE}, {"user_name", TEMPLATE}, {"mode", TEMPLATE}, {"preset", SAMPLER},
    {"name1", TEMPLATE}, {"name2", TEMPLATE}, {"greeting", TEMPLATE}, {"continue_", TEMPLATE},
    {"raw", "/v1/completions takes a prompt without a template"}, {"safe_prompt", "no prompt is added"},
    {"truncate_prompt_tokens", "a prompt that is too long is refused"}, {"truncation_length", "a prompt that is too long is refused"},
    {"truncation", "a prompt that is too long is refused"}, {"context_management", "the conversation is used as it was sent"},
    {"truncate", "a prompt that is too long is refused"}, {"shift", "context is not shifted"},
    {"transforms", "the conversation is used as it was sent"}, {"mm_processor_kwargs", TEXT_ONLY}, {"images", TEXT_ONLY},
    {"modalities", TEXT_ONLY}, {"audio", TEXT_ONLY}, {"image", TEXT_ONLY}, {"image_config", TEXT_ONLY},
    {"media_io_kwargs", TEXT_ONLY}, {"messages", OTHER_FORM}, {"prompt", "prompts are not kept on the server"},
    {"input", OTHER_FORM}, {"system", OTHER_FORM}, {"instructions", OTHER_FORM}, {"stop_sequences", "its name here is stop"},
    {"stop", "its name here is stop_sequences"}, {"n_predict", "its name here is max_tokens"},
    {"num_predict", "its name here is max_tokens"},
    {"thinking_budget", "the model decides how long it thinks"}, {"thinking_budget_tokens", "the model decides how long it thinks"},
    {"thinking_token_budget", "the model decides how long it thinks"},
    /* how it is computed */
    {"n_keep", "context is not shifted"}, {"num_keep", "context is not shifted"}, {"n_discard", "context is not shifted"},
    {"cache_prompt", "every prompt is kept in the prompt cache"}, {"caching", "every prompt is kept in the prompt cache"},
    {"cache", "every prompt is kept in the prompt cache"}, {"cache_control", "every prompt is kept in the prompt cache"},
    {"id_slot", SCHEDULING}, {"slot_id", SCHEDULING}, {"priority", SCHEDULING}, {"service_tier", SCHEDULING},
    {"speed", SCHEDULING}, {"background", "the answer is given at once; stream it"}, {"t_max_predict_ms", SCHEDULING},
    {"t_max_prompt_ms", SCHEDULING}, {"timeout", SCHEDULING}, {"timeout_ms", SCHEDULING}, {"n_indent", DETAIL},
    {"num_ctx", LOADING}, {"num_batch", LOADING}, {"num_gpu", LOADING}, {"main_gpu", LOADING}, {"num_thread", LOADING},
    {"use_mmap", LOADING}, {"use_mlock", LOADING}, {"low_vram", LOADING}, {"numa", LOADING}, {"f16_kv", LOADING},
    {"vocab_only", LOADING}, {"logits_all", LOADING}, {"embedding_only", LOADING}, {"keep_alive", LOADING}, {"ttl", LOADING}, {"options", LOADING},
    {"lora", LOADING}, {"lora_request", LOADING}, {"lora_path", LOADING}, {"adapters", LOADING}, {"draft_model", LOADING},
    {"num_draft_tokens", LOADING}, {"kv_transfer_params", LOADING}, {"bootstrap_host", LOADING}, {"bootstrap_port", LOADING},
    {"bootstrap_room", LOADING}, {"data_parallel_rank", LOADING}, {"speculative.n_max", LOADING},
    {"speculative.n_min", LOADING}, {"speculative.p_min", LOADING}, {"vllm_xargs", LOADING}, {"container", LOADING},
    {"mock_response", "answers come from the model"}, {"prediction", "the answer is not compared with a prediction"},
    /* tools */
    {"functions", "its successor is tools"}, {"function_call", "its successor is tool_choice"},
    {"web_search_options", "the server runs no tools of its own"}, {"mcp_servers", "the server runs no tools of its own"},
    {"plugins", "the server runs no tools of its own"}, {"moderation", "answers are not moderated"},
    {"guardrails", "answers are not moderated"}, {"max_tool_calls", "the server runs no tools of its own"},
    {"verbosity", "the model's chat template does not know it"},
    /* routers and gateways */
    {"provider", ROUTING}, {"models", ROUTING}, {"route", ROUTING}, {"fallbacks", ROUTING}, {"num_retries", ROUTING},
    {"api_base", ROUTING}, {"api_key", ROUTING}, {"base_url", ROUTING}, {"custom_llm_provider", ROUTING},
    {"drop_params", ROUTING}, {"extra_body", "its members belong at the top of the body"}, {"usage", "usage is always given"},
    {"inference_geo", ROUTING}, {"access_programs", ROUTING},
    /* labels */
    {"user", LABEL}, {"metadata", LABEL}, {"store", "answers are not kept"}, {"safety_identifier", LABEL}, {"user_id", LABEL},
    {"session_id", LABEL}, {"chat_id", LABEL}, {"conversation_id", LABEL}, {"message_id", LABEL}, {"trace_id", LABEL},
    {"request_id", "the header x-request-id names the request"}, {"rid", "the header x-request-id names the request"},
    {"tags", LABEL}, {"client_metadata", LABEL}, {"litellm_metadata", LABEL}, {"diagnostics", LABEL},
    {"prompt_cache_key", "every prompt is kept in the prompt cache"},
    {"prompt_cache_options", "every prompt is kept in the prompt cache"},
    {"prompt_cache_retention", "every prompt is kept in the prompt cache"},
};

const char *fields_foreign_reason(const char *name)
{
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        if (!strcmp(foreign[i].name, name))
            return foreign[i].reason;
    return NULL;
}

const struct foreign_field *fields_foreign_at(int index)
{
    return (size_t)index < sizeof foreign / sizeof foreign[0] ? &foreign[index] : NULL;
}
