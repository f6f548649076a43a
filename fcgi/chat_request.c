/* chat_request.h */
#include "fcgi/chat_request.h"

#include <string.h>

#include "engine/base/json.h"
#include "fcgi/inference.h"
#include "fcgi/request.h"
#include "fcgi/worker.h"

static const struct field_row fields[] = {
    {"messages", FIELD_READ},
    {"model", FIELD_READ},
    {"stream", FIELD_READ},
    {"stream_options", FIELD_READ},
    {"temperature", FIELD_READ},
    {"top_p", FIELD_READ},
    {"top_k", FIELD_READ},
    {"min_p", FIELD_READ},
    {"repetition_penalty", FIELD_READ},
    {"presence_penalty", FIELD_READ},
    {"frequency_penalty", FIELD_READ},
    {"seed", FIELD_READ},
    {"stop", FIELD_READ},
    {"max_tokens", FIELD_READ},
    {"max_completion_tokens", FIELD_READ},
    {"logit_bias", FIELD_READ},
    {"logprobs", FIELD_READ},
    {"top_logprobs", FIELD_READ},
    {"n", FIELD_READ},
    {"tools", FIELD_READ},
    {"tool_choice", FIELD_READ},
    {"parallel_tool_calls", FIELD_READ},
    {"response_format", FIELD_READ},
    {"reasoning_effort", FIELD_READ},
    {"enable_thinking", FIELD_READ},
    {"chat_template_kwargs", FIELD_READ},
    {"ignore_eos", FIELD_READ},
    {"cache_salt", FIELD_READ},
    {"modalities", FIELD_READ},
    {"user", FIELD_INERT},
    {"metadata", FIELD_INERT},
    {"store", FIELD_INERT},
    {"service_tier", FIELD_INERT},
    {"safety_identifier", FIELD_INERT},
    {"prompt_cache_key", FIELD_INERT}, /* a hint to a router of many servers; this is one */
    {"audio", FIELD_REFUSED},
    {"function_call", FIELD_REFUSED},
    {"functions", FIELD_REFUSED},
    {"prediction", FIELD_REFUSED},
    {"verbosity", FIELD_REFUSED},
    {"web_search_options", FIELD_REFUSED},
    {"grammar", FIELD_REFUSED},
    {NULL, FIELD_READ},
};

static bool read_logprobs(struct chat_request *c, const cJSON *body, struct err *e)
{
    bool wanted = false;
    int64_t top = 0;
    if (!json_get_bool(body, "logprobs", &wanted, e) ||
        !json_get_int(body, "top_logprobs", 0, ENGINE_MAX_TOP_LOGPROBS, &top, e))
        return false;
    if (json_member(body, "top_logprobs") && !wanted)
        return err_field(e, ERR_INPUT, "top_logprobs", "only goes with logprobs: true");
    c->top_logprobs = wanted ? (int)top : -1;
    return true;
}

static bool read_response_format(const cJSON *body, struct err *e)
{
    const cJSON *f = NULL;
    const char *type = NULL;
    if (!json_get_object(body, "response_format", &f, e) || !json_get_string(f, "type", &type, e))
        return false;
    if (f && !type)
        return err_field(e, ERR_INPUT, "response_format.type", "is needed");
    if (type && strcmp(type, "text"))
        return err_field(e, ERR_UNSUPPORTED, "response_format",
                         "'%.40s' is not enforced by this server yet; only 'text' is", type);
    return true;
}

static bool read_modalities(const cJSON *body, struct err *e)
{
    const cJSON *list = NULL, *item;
    if (!json_get_array(body, "modalities", &list, e))
        return false;
    cJSON_ArrayForEach(item, list) if (!cJSON_IsString(item) || strcmp(item->valuestring, "text")) return
        err_field(e, ERR_UNSUPPORTED, "modalities", "this server answers with text only");
    return true;
}

static bool read_tools(struct chat_request *c, struct request *r, const cJSON *body, struct err *e)
{
    const cJSON *choice = json_member(body, "tool_choice"), *tools = json_member(body, "tools");
    bool parallel = true;
    if (tools && !chat_check_tools(tools, e))
        return false;
    if (!json_get_bool(body, "parallel_tool_calls", &parallel, e))
        return false;
    c->one_call = !parallel;
    if (cJSON_GetArraySize(tools) > 0)
        c->tools = tools;
    if (choice && (!cJSON_IsString(choice) || !strcmp(choice->valuestring, "required")))
        return err_field(e, ERR_UNSUPPORTED, "tool_choice",
                         "this server can't force a call yet; send 'auto' or 'none'");
    if (choice && strcmp(choice->valuestring, "auto") && strcmp(choice->valuestring, "none"))
        return err_field(e, ERR_INPUT, "tool_choice", "must be 'auto' or 'none'");
    if (choice && !c->tools && strcmp(choice->valuestring, "none"))
        return err_field(e, ERR_INPUT, "tool_choice", "only goes with tools");
    if (choice && !strcmp(choice->valuestring, "none"))
        c->tools = NULL;
    const struct chat_template *t = r->worker->text->chat_template;
    if (c->tools && t && !chat_template_traits(t)->tools)
        return err_field(e, ERR_UNSUPPORTED, "tools", "the model's chat template does not show tools to it");
    return true;
}

static bool set_variable(struct chat_request *c, const char *name, cJSON *v, struct err *e)
{
    if (!c->kwargs)
        c->kwargs = cJSON_CreateObject();
    cJSON_DeleteItemFromObjectCaseSensitive(c->kwargs, name);
    if (v && cJSON_AddItemToObject(c->kwargs, name, v))
        return true;
    cJSON_Delete(v);
    return err_set(e, ERR_NOMEM, "no memory for the template's variables");
}

static bool read_template_kwargs(struct chat_request *c, const cJSON *body, struct err *e)
{
    static const char *const own[] = {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token", NULL};
    const cJSON *o = NULL;
    if (!json_get_object(body, "chat_template_kwargs", &o, e))
        return false;
    for (int i = 0; own[i]; i++)
        if (json_member(o, own[i]))
            return err_field(e, ERR_INPUT, "chat_template_kwargs", "'%s' is the server's own", own[i]);
    if (o && !(c->kwargs = cJSON_Duplicate(o, true)))
        return err_set(e, ERR_NOMEM, "no memory for the template's variables");
    return true;
}

static bool read_effort(struct chat_request *c, const struct chat_traits *t, const cJSON *body, struct err *e)
{
    static const char *const levels[] = {"none", "minimal", "low", "medium", "high", "xhigh", NULL};
    const char *effort = NULL;
    int i = 0;
    if (!json_get_string(body, "reasoning_effort", &effort, e))
        return false;
    if (!effort)
        return true;
    while (levels[i] && strcmp(levels[i], effort))
        i++;
    if (!levels[i])
        return err_field(e, ERR_INPUT, "reasoning_effort", "must be none, minimal, low, medium, high or xhigh");
    if (t->effort)
        return set_variable(c, "reasoning_effort", cJSON_CreateString(effort), e);
    if (i == 0 && t->thinking_switch)
        return set_variable(c, "enable_thinking", cJSON_CreateFalse(), e);
    if (i == 0 && !t->thinking)
        return true;
    return err_field(e, ERR_UNSUPPORTED, "reasoning_effort", "the model's chat template does not obey '%s'", effort);
}

static bool read_thinking(struct chat_request *c, struct request *r, const cJSON *body, struct err *e)
{
    static const struct chat_traits none;
    const struct chat_template *template = r->worker->text->chat_template;
    const struct chat_traits *t = template ? chat_template_traits(template) : &none;
    const cJSON *v = json_member(body, "enable_thinking");
    bool on = false;
    if (!read_template_kwargs(c, body, e) || !read_effort(c, t, body, e) ||
        !json_get_bool(body, "enable_thinking", &on, e))
        return false;
    if (!v || (!t->thinking_switch && on == t->thinking))
        return true;
    if (!t->thinking_switch)
        return err_field(e, ERR_UNSUPPORTED, "enable_thinking", "the model's chat template has no such switch");
    return set_variable(c, "enable_thinking", cJSON_CreateBool(on), e);
}

bool chat_request_read(struct chat_request *c, struct request *r, struct err *e)
{
    *c = (struct chat_request){.source = "messages", .n = 1, .salt = ""};
    cJSON *body = request_json(r, e);
    int64_t n = 1;
    if (!body || !fields_check(r, body, fields, e) || !field_model(r, body, e))
        return false;
    c->messages = cJSON_GetObjectItemCaseSensitive(body, "messages");
    settings_default(&c->settings, r->worker->text);
    if (!chat_check_messages(c->messages, e) || !field_stream(body, &c->stream, &c->include_usage, e) ||
        !settings_read(&c->settings, body, r->worker->text, r->arena, e) || !read_logprobs(c, body, e) ||
        !json_get_int(body, "n", 1, INFERENCE_MAX_CHOICES, &n, e) || !read_tools(c, r, body, e) ||
        !read_response_format(body, e) || !read_modalities(body, e) || !read_thinking(c, r, body, e) ||
        !json_get_bool(body, "ignore_eos", &c->ignore_eos, e) || !json_get_string(body, "cache_salt", &c->salt, e))
        return false;
    c->n = (int)n;
    return true;
}

void chat_request_fini(struct chat_request *c)
{
    cJSON_Delete(c->kwargs);
    c->kwargs = NULL;
}
