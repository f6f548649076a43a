/* chat_request.h: the body of a chat completion is read field by field, in the order in which
 * fields depend on each other. */
#include "fcgi/openai/chat_request.h"

#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/inference.h"
#include "fcgi/inference/model_name.h"
#include "fcgi/inference/prompt.h"
#include "fcgi/openai/chat_files.h"
#include "fcgi/process/worker.h"
#include "sql/models/store_models.h"

static const struct field_row fields[] = {
    {"messages", FIELD_READ},
    {"model", FIELD_READ},
    {"stream", FIELD_READ},
    {"stream_options", FIELD_READ},
    {"return_progress", FIELD_READ}, /* llama.cpp's */
    FIELD_ROWS_OF_SAMPLING,
    FIELD_ROWS_OF_LENGTH,
    {"stop", FIELD_READ},
    {"max_tokens", FIELD_READ},
    {"max_completion_tokens", FIELD_READ},
    {"logprobs", FIELD_READ},
    {"top_logprobs", FIELD_READ},
    {"prompt_logprobs", FIELD_READ}, /* vLLM's */
    {"n", FIELD_READ},
    {"tools", FIELD_READ},
    {"tool_choice", FIELD_READ},
    {"parallel_tool_calls", FIELD_READ},
    {"response_format", FIELD_READ},
    FIELD_ROWS_OF_FORMS,
    {"reasoning_effort", FIELD_READ},
    {"enable_thinking", FIELD_READ},
    {"thinking", FIELD_READ},  /* Anthropic's, as gateways pass it on */
    {"think", FIELD_READ},     /* Ollama's */
    {"reasoning", FIELD_READ}, /* OpenRouter's */
    {"verbosity", FIELD_READ},
    {"chat_template_kwargs", FIELD_READ},
    {"cache_salt", FIELD_READ},
    {"prediction", FIELD_READ},
    {"modalities", FIELD_READ},
    {"user", FIELD_INERT},
    {"metadata", FIELD_INERT},
    {"store", FIELD_INERT},
    {"service_tier", FIELD_INERT},
    {"safety_identifier", FIELD_INERT},
    {"prompt_cache_key", FIELD_READ},
    {"prompt_cache_options", FIELD_INERT},
    {"prompt_cache_retention", FIELD_READ},
    {NULL, FIELD_READ},
};

static bool read_logprobs(struct chat_request *c, const cJSON *body, struct err *e)
{
    bool wanted = false;
    int64_t top = 0, prompt = -1;
    if (!json_get_bool(body, "logprobs", &wanted, e) ||
        !json_get_int(body, "top_logprobs", 0, ENGINE_MAX_TOP_LOGPROBS, &top, e))
        return false;
    if (json_member(body, "top_logprobs") && !wanted)
        return err_field(e, ERR_INPUT, "top_logprobs", "only goes with logprobs: true");
    c->top_logprobs = wanted ? (int)top : -1;
    if (!json_get_int(body, "prompt_logprobs", 0, ENGINE_MAX_TOP_LOGPROBS, &prompt, e))
        return false;
    c->prompt_logprobs = (int)prompt;
    return prompt < 0 || !c->streaming.stream ||
           err_field(e, ERR_INPUT, "prompt_logprobs", "does not go with stream: true");
}

static bool read_modalities(struct request *r, const cJSON *body, struct err *e)
{
    const cJSON *list = NULL, *item;
    bool others = false;
    if (!json_get_array(body, "modalities", &list, e))
        return false;
    cJSON_ArrayForEach (item, list) {
        if (!cJSON_IsString(item))
            return err_field(e, ERR_INPUT, "modalities", "must be a list of strings");
        others |= strcmp(item->valuestring, "text") != 0;
    }
    return !others || ignored_add(r, "modalities", fields_foreign_reason("modalities"), e);
}

static bool read_tools(struct chat_request *c, struct request *r, const cJSON *body, struct err *e)
{
    const cJSON *tools = json_member(body, "tools");
    bool parallel = true, none;
    if (tools && !chat_check_tools(tools, e))
        return false;
    if (!json_get_bool(body, "parallel_tool_calls", &parallel, e))
        return false;
    c->one_call = !parallel;
    if (cJSON_GetArraySize(tools) > 0)
        c->tools = tools;
    if (!constraint_read_choice(&c->constraint, body, c->tools, &none, e))
        return false;
    if (none)
        c->tools = NULL;
    c->one_call = c->one_call || c->constraint.named;
    if (c->tools && r->model)
        return r->model->tools ||
               err_field(e, ERR_UNSUPPORTED, "tools", "this model does not call functions");
    if (c->tools && r->worker->text->chat_template && !prompt_takes_tools(r))
        return err_field(e, ERR_UNSUPPORTED, "tools",
                         "the model's chat template does not show tools to it");
    return true;
}

bool chat_read_output(struct chat_request *c, struct request *r, const cJSON *body, struct err *e)
{
    return read_tools(c, r, body, e) && constraint_read_format(&c->constraint, r, body, e);
}

void chat_request_init(struct chat_request *c, const struct request *r, const char *source)
{
    *c = (struct chat_request){
        .source = source, .n = 1, .top_logprobs = -1, .prompt_logprobs = -1, .salt = ""};
    settings_begin(&c->settings, r);
}

bool chat_request_model(struct chat_request *c, struct request *r, const cJSON *body, struct err *e)
{
    const char *model = NULL;
    if (!json_get_string(body, "model", &model, e) || (model && !model_name_take(r, model, e)))
        return false;
    if (r->model || r->local) /* those of chat_request_init are the first model's */
        settings_begin(&c->settings, r);
    return true;
}

bool chat_request_settings(struct chat_request *c, struct request *r, const cJSON *o, struct err *e)
{
    c->given = o;
    return settings_read(&c->settings, o, r->model ? NULL : r->worker->text, r->arena, e);
}

static bool read_progress(struct chat_request *c, const cJSON *body, struct err *e)
{
    if (!json_get_bool(body, "return_progress", &c->progress, e))
        return false;
    return !c->progress || c->streaming.stream ||
           err_field(e, ERR_INPUT, "return_progress", "only goes with stream: true");
}

bool chat_request_read(struct chat_request *c, struct request *r, struct err *e)
{
    cJSON *body = field_body(r, e);
    const cJSON *reasoning = NULL;
    const char *verbosity = NULL;
    int64_t n = 1;
    chat_request_init(c, r, "messages");
    if (!body || !fields_take(r, body, fields, e) || !chat_request_model(c, r, body, e))
        return false;
    c->messages = cJSON_GetObjectItemCaseSensitive(body, "messages");
    if (!chat_check_messages(c->messages, e) || !field_stream(r, body, &c->streaming, e) ||
        !chat_request_settings(c, r, body, e) || !read_logprobs(c, body, e) ||
        !json_get_int(body, "n", 1, INFERENCE_MAX_CHOICES, &n, e) ||
        !chat_read_output(c, r, body, e) || !read_modalities(r, body, e) ||
        !read_progress(c, body, e) || !chat_read_thinking(c, r, body, e) ||
        !json_get_object(body, "reasoning", &reasoning, e) ||
        !chat_read_reasoning(c, r, reasoning, e) ||
        !json_get_string(body, "verbosity", &verbosity, e) || !chat_read_cache(c, body, e) ||
        !chat_read_prediction(c, r, body, e) ||
        (verbosity && !chat_set_verbosity(c, r, verbosity, "verbosity", e)))
        return false;
    c->n = (int)n;
    return chat_files_read(r, c->messages, e);
}

void chat_request_fini(struct chat_request *c)
{
    cJSON_Delete(c->kwargs);
    cJSON_Delete(c->owned);
    c->kwargs = c->owned = NULL;
    buf_fini(&c->grammar);
    buf_fini(&c->relay);
    constraint_fini(&c->constraint);
}
