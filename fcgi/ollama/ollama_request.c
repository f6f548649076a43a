/* ollama.h: the bodies of /api/chat and /api/generate. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/inference.h"
#include "fcgi/ollama/ollama.h"
#include "fcgi/process/worker.h"

static const struct field_row chat_fields[] = {
    FIELD_ROWS_OF_OLLAMA,
    {"messages", FIELD_READ},
    {"tools", FIELD_READ},
    {NULL, FIELD_READ},
};

static const struct field_row generate_fields[] = {
    FIELD_ROWS_OF_OLLAMA,   {"prompt", FIELD_READ}, {"system", FIELD_READ}, {"images", FIELD_READ},
    {"suffix", FIELD_READ}, {"raw", FIELD_READ},    {NULL, FIELD_READ},
};

bool ollama_rename(const struct ollama_request *o, struct err *e)
{
    chat_build_rename(e, "response_format.schema", "format");
    chat_build_rename(e, "response_format", "format");
    if (o->generates && !strcmp(e->field, "messages"))
        snprintf(e->field, sizeof e->field, "prompt");
    return false;
}

static bool read_format(struct chat_build *b, cJSON *o, const cJSON *body, struct err *e)
{
    const cJSON *format = json_member(body, "format");
    const char *name = cJSON_GetStringValue(format);
    if (!format || (name && !*name))
        return true;
    if (!cJSON_IsObject(format) && !(name && !strcmp(name, "json")))
        return err_field(e, ERR_INPUT, "format", "must be \"json\" or a JSON schema, as an object");
    cJSON *f = cJSON_AddObjectToObject(o, "response_format");
    cJSON_AddStringToObject(f, "type", "json_object");
    if (!name)
        chat_build_refer(b, f, "schema", format);
    return true;
}

static bool read_logprobs(struct chat_request *c, const cJSON *body, struct err *e)
{
    bool wanted = false;
    int64_t top = 0;
    if (!json_get_bool(body, "logprobs", &wanted, e) ||
        !json_get_int(body, "top_logprobs", 0, ENGINE_MAX_TOP_LOGPROBS, &top, e))
        return false;
    if (top && !wanted)
        return err_field(e, ERR_INPUT, "top_logprobs", "only goes with logprobs: true");
    c->top_logprobs = wanted ? (int)top : -1;
    return true;
}

static bool check_keep_alive(const cJSON *body, struct err *e)
{
    const cJSON *v = json_member(body, "keep_alive");
    return !v || cJSON_IsNumber(v) || cJSON_IsString(v) ||
           err_field(e, ERR_INPUT, "keep_alive", "must be seconds, or a text such as \"5m\"");
}

/* What both bodies have, but for the prompt. The answer's form and thinking are read as a chat's,
 * out of an object in its form. */
static bool read_both(struct ollama_request *o, struct request *r, struct chat_build *b,
                      const cJSON *body, struct err *e)
{
    struct chat_request *c = &o->chat;
    cJSON *form = cJSON_AddObjectToObject(c->owned, "form");
    c->streaming.stream = true;
    chat_build_refer(b, form, "tools", o->generates ? NULL : json_member(body, "tools"));
    chat_build_refer(b, form, "think", json_member(body, "think"));
    return json_get_bool(body, "stream", &c->streaming.stream, e) &&
           ollama_read_options(c, r, body, e) && check_keep_alive(body, e) &&
           read_logprobs(c, body, e) && read_format(b, form, body, e) &&
           (chat_read_output(c, r, form, e) || ollama_rename(o, e)) &&
           chat_read_thinking(c, r, form, e);
}

static cJSON *begin(struct ollama_request *o, struct request *r, bool generates,
                    struct chat_build *b, struct err *e)
{
    *o = (struct ollama_request){.generates = generates};
    chat_request_init(&o->chat, r, generates ? "prompt" : "messages");
    cJSON *body = field_body(r, e);
    if (!body || !fields_take(r, body, generates ? generate_fields : chat_fields, e) ||
        !ollama_model(r, body, e))
        return NULL;
    if (r->model || r->local) /* those of chat_request_init are the first model's */
        settings_begin(&o->chat.settings, r);
    o->chat.owned = cJSON_CreateObject();
    o->chat.messages = cJSON_AddArrayToObject(o->chat.owned, "messages");
    *b = (struct chat_build){.messages = o->chat.messages};
    return body;
}

bool ollama_read_chat(struct ollama_request *o, struct request *r, struct err *e)
{
    struct chat_build b;
    const cJSON *messages = NULL, *body = begin(o, r, false, &b, e);
    if (!body || !json_get_array(body, "messages", &messages, e) || !read_both(o, r, &b, body, e))
        return false;
    o->nothing = !messages || !messages->child;
    if (!o->nothing &&
        (!ollama_add_messages(&b, r, messages, e) || !chat_check_messages(o->chat.messages, e)))
        return false;
    return !b.failed || err_set(e, ERR_NOMEM, "no memory for the messages");
}

/* A prompt as it is: what belongs to a template does not go with it, as in Ollama. */
static bool read_raw(struct ollama_request *o, struct request *r, const cJSON *body,
                     const char *prompt, struct err *e)
{
    if (r->model)
        return err_field(e, ERR_UNSUPPORTED, "raw", "this model's own server makes its prompts");
    static const char *const others[] = {"system", "template", "context"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (json_member(body, others[i]))
            return err_field(e, ERR_INPUT, others[i], "does not go with raw: true");
    if (json_member(body, "think") &&
        !ignored_add(r, "think", "a raw prompt has no template that could switch it", e))
        return false;
    if (json_member(body, "images") && !ignored_add(r, "images", "this model reads text only", e))
        return false;
    o->raw = prompt;
    return tokenizer_encode(
        r->worker->text->tokenizer,
        &(struct tokenizer_input){.text = prompt, .len = strlen(prompt), .mode = TOKENIZE_SPECIAL},
        &o->ids, e);
}

static bool add_prompt(struct chat_build *b, struct request *r, const cJSON *body,
                       const char *prompt, struct err *e)
{
    const char *system = NULL;
    const struct ollama_images images = {
        .list = json_member(body, "images"), .field = "images", .alone = !*prompt};
    if (!json_get_string(body, "system", &system, e))
        return false;
    if (system && *system)
        chat_build_text(b, chat_build_message(b, "system"), system);
    cJSON *message = chat_build_message(b, "user");
    if (!ollama_add_images(b, r, message, &images, e))
        return false;
    chat_build_text(b, message, prompt);
    return !b->failed || err_set(e, ERR_NOMEM, "no memory for the prompt");
}

bool ollama_read_generate(struct ollama_request *o, struct request *r, struct err *e)
{
    struct chat_build b;
    const char *prompt = "", *suffix = "";
    bool raw = false;
    const cJSON *body = begin(o, r, true, &b, e);
    if (!body || !json_get_string(body, "prompt", &prompt, e) ||
        !json_get_string(body, "suffix", &suffix, e) || !json_get_bool(body, "raw", &raw, e))
        return false;
    if (*suffix)
        return err_field(e, ERR_UNSUPPORTED, "suffix",
                         "the model does not support insert: text is not completed in the middle");
    if (!read_both(o, r, &b, body, e))
        return false;
    o->nothing = !*prompt;
    return raw && *prompt ? read_raw(o, r, body, prompt, e) : add_prompt(&b, r, body, prompt, e);
}

void ollama_request_fini(struct ollama_request *o)
{
    chat_request_fini(&o->chat);
    ids_fini(&o->ids);
}
