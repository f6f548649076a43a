/* chat_relay.h: a list of what is sent on; what is on no list stays here. */
#define LOG_MODULE "chat"
#include "fcgi/openai/chat_relay.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/base/log.h"
#include "engine/chat/chat_parser.h"
#include "fcgi/http/relay_error.h"
#include "fcgi/http/request.h"
#include "fcgi/process/relay_estimate.h"
#include "fcgi/process/relay_via.h"
#include "fcgi/process/worker.h"
#include "sql/models/store_models.h"
#include "sql/prompts/store_prompt_seal.h"

#define AFFINE_BYTES 1024 /* of a text: what begins so alike shares a prompt cache */

/* What settings_read has checked, by OpenAI's and vLLM's names, which upstreams share. */
static const struct {
    const char *name, *alias;
} numbers[] = {{"temperature", NULL},
               {"top_p", NULL},
               {"top_k", NULL},
               {"min_p", NULL},
               {"repetition_penalty", "repeat_penalty"},
               {"presence_penalty", NULL},
               {"frequency_penalty", NULL},
               {"stop", NULL},
               {"min_tokens", NULL},
               {"ignore_eos", NULL}};

/* What only makes sense for the vocabulary, the weights or the grammars of this server. */
static const char *const own[] = {"logit_bias",
                                  "typical_p",
                                  "repeat_last_n",
                                  "experts_per_token",
                                  "speculate",
                                  "stop_token_ids",
                                  "allowed_token_ids",
                                  "bad_words",
                                  "skip_special_tokens",
                                  "no_stop_trim",
                                  "include_stop_str_in_output",
                                  NULL};

static bool refuse(struct err *e, const char *field)
{
    return err_field(e, ERR_UNSUPPORTED, field,
                     "this model is answered by another server, which is not asked for this");
}

static void put_value(struct buf *out, const char *name, const cJSON *v)
{
    if (!v)
        return;
    buf_printf(out, ",\"%s\":", name);
    json_write(out, v);
}

int64_t chat_relay_most(const struct chat_request *c)
{
    const struct settings *s = &c->settings;
    const int64_t most = s->max_tokens;
    return s->most_tokens && (most < 0 || most > s->most_tokens) ? s->most_tokens : most;
}

bool chat_relay_put_settings(struct buf *out, const struct chat_request *c, struct err *e)
{
    const struct settings *s = &c->settings;
    const char *salt = json_text(c->given, "cache_salt");
    for (int i = 0; own[i]; i++)
        if (json_member(c->given, own[i]))
            return refuse(e, own[i]);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const cJSON *v = json_member(c->given, numbers[i].name);
        put_value(out, numbers[i].name,
                  v || !numbers[i].alias ? v : json_member(c->given, numbers[i].alias));
    }
    if (salt && *salt) /* the cache that it parts is the other server's */
        buf_json_member(out, "cache_salt", salt);
    /* Of several choices each would be the same: they are asked for one by one. */
    if (s->seed_given && c->n == 1)
        buf_printf(out, ",\"seed\":%lld", (long long)s->sampling.seed);
    const int64_t most = chat_relay_most(c);
    if (most >= 0)
        buf_printf(out, ",\"%s\":%lld",
                   json_member(c->given, "max_completion_tokens") ? "max_completion_tokens"
                                                                  : "max_tokens",
                   (long long)most);
    return true;
}

/* A message's members that belong to the conversation. Earlier reasoning goes to models that read
 * it. */
static void put_message(struct buf *out, const cJSON *m, bool reasoning)
{
    static const char *const names[] = {"content", "name", "tool_calls", "tool_call_id"};
    const char *role = json_text(m, "role"), *thought = json_text(m, "reasoning_content");
    buf_puts(out, "{\"role\":");
    buf_json_string(out, role, strlen(role));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        put_value(out, names[i], json_member(m, names[i]));
    if (!json_member(m, "content"))
        buf_puts(out, ",\"content\":null");
    if (!thought)
        thought = json_text(m, "reasoning");
    if (reasoning && thought)
        buf_json_member(out, "reasoning_content", thought);
    buf_putc(out, '}');
}

static void put_tools(struct buf *out, const struct chat_request *c)
{
    if (!c->tools)
        return;
    put_value(out, "tools", c->tools);
    if (c->constraint.named) {
        buf_puts(out, ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":");
        buf_json_string(out, c->constraint.named, strlen(c->constraint.named));
        buf_puts(out, "}}");
    } else if (c->constraint.calls == TOOL_CHOICE_REQUIRED) {
        buf_puts(out, ",\"tool_choice\":\"required\"");
    }
    if (c->one_call && !c->constraint.named)
        buf_puts(out, ",\"parallel_tool_calls\":false");
}

static bool put_format(struct buf *out, const struct constraint *k, struct err *e)
{
    if (k->gbnf || k->regex || k->choice)
        return refuse(e, k->field ? k->field : "grammar");
    if (k->allowed)
        return refuse(e, "tool_choice");
    if (k->schema) {
        buf_puts(out, ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":"
                      "\"answer\",\"schema\":");
        json_write(out, k->schema);
        buf_printf(out, "%s}}", k->strict ? ",\"strict\":true" : "");
    } else if (k->json_object) {
        buf_puts(out, ",\"response_format\":{\"type\":\"json_object\"}");
    }
    return true;
}

/* Effort and verbosity have names of OpenAI's; other variables are the template's. */
static void put_thinking(struct buf *out, const cJSON *kwargs)
{
    static const char *const names[] = {"reasoning_effort", "verbosity"};
    const cJSON *v;
    bool any = false;
    for (int i = 0; i < 2; i++)
        put_value(out, names[i], json_member(kwargs, names[i]));
    cJSON_ArrayForEach (v, kwargs) {
        if (!strcmp(v->string, names[0]) || !strcmp(v->string, names[1]))
            continue;
        buf_puts(out, any ? "," : ",\"chat_template_kwargs\":{");
        buf_json_string(out, v->string, strlen(v->string));
        buf_putc(out, ':');
        json_write(out, v);
        any = true;
    }
    if (any)
        buf_putc(out, '}');
}

/* An address would be fetched from where the other server stands, its network included, for whoever
 * may ask: only images that are sent along go on. */
static bool is_sent_along(const char *url)
{
    const char *data = url && !strncmp(url, "data:image/", 11) ? strstr(url, ";base64,") : NULL;
    if (!data || strcspn(url, ",") != (size_t)(data - url) + 7)
        return false;
    data += 8;
    const size_t n =
        strspn(data, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=");
    return n > 0 && !data[n];
}

static bool check_images(const cJSON *messages, struct err *e)
{
    const cJSON *m, *part;
    char path[64];
    int i = 0, k;
    cJSON_ArrayForEach (m, messages) {
        const cJSON *content = json_member(m, "content");
        k = 0;
        if (cJSON_IsArray(content))
            cJSON_ArrayForEach (part, content) {
                const cJSON *image = json_member(part, "image_url");
                const char *url =
                    cJSON_IsString(image) ? image->valuestring : json_text(image, "url");
                snprintf(path, sizeof path, "messages[%d].content[%d].image_url", i, k++);
                if (image && !is_sent_along(url))
                    return err_field(e, ERR_INPUT, path,
                                     "must be the image itself, as data:image/...;base64,...: "
                                     "no addresses are passed on to another server");
            }
        i++;
    }
    return true;
}

/* It would tell the other server who asks, or how people here name things; a name made of it serves
 * as well. Only OpenAI's API has a place for it, so the relay's other dialects leave it out. */
static void put_cache_key(struct buf *out, const struct request *r, const struct chat_request *c)
{
    char name[SECRET_TOKEN_SIZE];
    struct err e = {0};
    if (!c->cache_key || !*c->cache_key || !r->store)
        return;
    if (store_prompt_cache_name(r->store, r->who.user_id, c->cache_key, name, &e))
        buf_json_member(out, "prompt_cache_key", name);
    else
        log_warn("id=%s prompt_cache_key is not passed on: %s", r->id, e.text);
}

bool chat_relay_put(struct buf *out, struct request *r, const struct chat_request *c, struct err *e)
{
    const cJSON *m;
    const char *comma = "";
    if (strcmp(r->model->kind, "chat") != 0)
        return err_field(e, ERR_UNSUPPORTED, "model", "'%.100s' does not chat", r->model->name);
    if (c->prompt_logprobs >= 0)
        return refuse(e, "prompt_logprobs");
    if (!check_images(c->messages, e))
        return false;
    buf_puts(out, "{\"messages\":[");
    cJSON_ArrayForEach (m, c->messages) {
        buf_puts(out, comma);
        put_message(out, m, r->model->reasoning);
        comma = ",";
    }
    buf_putc(out, ']');
    put_tools(out, c);
    put_thinking(out, c->kwargs);
    put_cache_key(out, r, c);
    if (c->top_logprobs >= 0)
        buf_printf(out, ",\"logprobs\":true,\"top_logprobs\":%d", c->top_logprobs);
    if (!chat_relay_put_settings(out, c, e) || !put_format(out, &c->constraint, e))
        return false;
    return (buf_putc(out, '}') && !out->failed) ||
           err_set(e, ERR_NOMEM, "no memory for the upstream's request");
}

static uint64_t mix(uint64_t h, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) /* FNV-1a */
        h = (h ^ (unsigned char)text[i]) * 0x100000001B3u;
    return h;
}

uint64_t chat_relay_affinity(const struct request *r, const cJSON *messages)
{
    uint64_t h = 0xCBF29CE484222325u;
    const cJSON *m;
    h = mix(h, (const char *)&r->who.user_id, sizeof r->who.user_id);
    cJSON_ArrayForEach (m, messages) {
        const char *role = json_text(m, "role");
        struct buf text = {0};
        json_write(&text, json_member(m, "content"));
        h = mix(h, text.data ? text.data : "", text.len);
        buf_fini(&text);
        if (role && !strcmp(role, "user"))
            break; /* what comes after the first question differs from turn to turn */
    }
    return h ? h : 1;
}

uint64_t chat_relay_affinity_of(const struct request *r, const char *text)
{
    const uint64_t h =
        mix(0xCBF29CE484222325u, (const char *)&r->who.user_id, sizeof r->who.user_id);
    return mix(h, text, strnlen(text, AFFINE_BYTES)) | 1;
}

bool chat_relay_origin(struct engine_relay *out, struct request *r, struct err *e)
{
    snprintf(out->request_id, sizeof out->request_id, "%s", r->id);
    if (relay_via_read(out->via, request_header(r, "Via"), r->worker->shared, e))
        return true;
    relay_error_explain(r, e);
    return false;
}

int64_t chat_relay_tokens(const struct buf *request)
{
    return relay_estimate(request->data, request->len);
}

bool chat_relay_make(struct inference_params *p, struct request *r, struct chat_request *c,
                     struct err *e)
{
    struct buf *out = &c->relay;
    buf_clear(out); /* it may be made again, of fewer messages */
    if (!chat_relay_put(out, r, c, e))
        return false;
    const int64_t most = chat_relay_most(c);
    *p = (struct inference_params){.n = c->n, .one_call = c->one_call, .source = c->source};
    p->job.n_prompt = (int32_t)chat_relay_tokens(out);
    p->relay = (struct engine_relay){.model = r->model->id,
                                     .request = out->data,
                                     .n_request = out->len,
                                     .most_tokens = most > 0 ? most : 0,
                                     .logprobs = c->top_logprobs >= 0,
                                     .user = (uint64_t)r->who.user_id,
                                     .affinity = chat_relay_affinity(r, c->messages)};
    p->generation = (struct generation_params){
        .format = CHAT_RELAYED_FORMAT, .tools = c->tools, .stream_calls = true};
    return chat_relay_origin(&p->relay, r, e);
}
