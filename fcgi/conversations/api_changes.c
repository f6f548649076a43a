/* Answers the visible page's poll: what happened elsewhere (another tab, another device),
 * how long the prompt is, and which values hold where the user says nothing. */
#include <stdio.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/json/json.h"
#include "fcgi/attachments/attachment.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/conversations/conversation.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/http/work.h"
#include "fcgi/inference/prompt.h"
#include "fcgi/inference/settings.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/process/worker.h"
#include "fcgi/status/engine_status.h"
#include "fcgi/tools/tool_offer.h"
#include "sql/chats/store_conversations.h"
#include "sql/files/store_attachments.h"

#define MAX_REPLY ((size_t)512 << 20)

static void put_conversation(struct buf *out, const struct store_conversation *c,
                             const struct store_state *s)
{
    buf_printf(out, "\"id\":\"%lld\",\"title\":", (long long)c->id);
    buf_json_string(out, c->title, strlen(c->title));
    buf_printf(out, ",\"settings\":%s,\"updated_at\":%lld,\"count\":%lld,\"running\":%s",
               c->settings, (long long)c->updated_at, (long long)s->n_messages, s->running);
    if (c->leaf_id)
        buf_printf(out, ",\"leaf_id\":\"%lld\"", (long long)c->leaf_id);
    else
        buf_puts(out, ",\"leaf_id\":null");
}

static bool read_query(struct request *r, int64_t *conversation, int64_t *after, struct err *e)
{
    const char *id = request_query(r, "conversation"), *since = request_query(r, "after");
    *conversation = *after = 0;
    if (id && !path_id_parse(id, conversation))
        return err_set(e, ERR_NOTFOUND, "there is no such conversation");
    if (since && strcmp(since, "0") && !path_id_parse(since, after))
        return err_field(e, ERR_INPUT, "after", "is not the id of a message");
    return true;
}

/* 204 costs two look-ups by key and a count over an index: it is what every open page asks every
 * two seconds. */
static bool changes(struct request *r, struct err *e)
{
    int64_t id, after, listed_at;
    struct store_conversation c;
    struct store_state s;
    char tag[24];
    const char *known = request_query(r, "tag");
    struct buf out = {.limit = MAX_REPLY};
    if (!read_query(r, &id, &after, e) ||
        !store_conversation_newest(r->store, r->who.user_id, &listed_at, e))
        return false;
    buf_printf(&out, "\"listed_at\":%lld", (long long)listed_at);
    if (id) {
        if (!store_conversation_get(r->store, r->arena,
                                    &(struct store_ref){.user_id = r->who.user_id, .id = id}, &c,
                                    e) ||
            !store_conversation_state(r->store, r->arena,
                                      &(struct store_ref){.user_id = r->who.user_id, .id = id}, &s,
                                      e)) {
            buf_fini(&out);
            return false;
        }
        buf_puts(&out, ",\"conversation\":{");
        put_conversation(&out, &c, &s);
    }
    snprintf(tag, sizeof tag, "%016llx", (unsigned long long)hash64(out.data, out.len, 0));
    bool ok = true;
    if (known && !strcmp(known, tag)) {
        reply_empty(r, 204);
    } else {
        if (id) {
            buf_puts(&out, ",\"messages\":[");
            ok = store_message_list(r->store,
                                    &(struct store_message_range){.user_id = r->who.user_id,
                                                                  .conversation_id = id,
                                                                  .after = after},
                                    conversation_message_list_item, &out, e);
            buf_puts(&out, "]}");
        }
        struct buf whole = {.limit = MAX_REPLY};
        buf_printf(&whole, "{\"tag\":\"%s\",", tag);
        buf_append(&whole, out.data, out.len);
        buf_putc(&whole, '}');
        whole.failed |= out.failed;
        if (ok)
            reply_json_buf(r, 200, &whole);
        buf_fini(&whole);
    }
    buf_fini(&out);
    return ok;
}

static const struct field_row count_fields[] = {{"conversation_id", FIELD_READ},
                                                {"parent_id", FIELD_READ},
                                                {"content", FIELD_READ},
                                                {"attachments", FIELD_READ},
                                                {"settings", FIELD_READ},
                                                {"project_id", FIELD_READ},
                                                {0}};

static bool read_ask(struct request *r, const cJSON *body, struct conversation_ask *ask,
                     const char **stored, struct err *e)
{
    const char *id = NULL, *parent = NULL;
    struct store_conversation c = {.settings = "{}"};
    if (!fields_check(r, body, count_fields, e) ||
        !json_get_string(body, "conversation_id", &id, e) ||
        !json_get_string(body, "parent_id", &parent, e) ||
        !json_get_string(body, "content", &ask->content, e) ||
        !conversation_read_project(body, &ask->project_id, e))
        return false;
    if (ask->project_id == STORE_NO_PROJECT)
        ask->project_id = 0;
    if (id && !path_id_parse(id, &ask->conversation_id))
        return err_set(e, ERR_NOTFOUND, "there is no such conversation");
    if (id &&
        !store_conversation_get(
            r->store, r->arena,
            &(struct store_ref){.user_id = r->who.user_id, .id = ask->conversation_id}, &c, e))
        return false;
    *stored = c.settings;
    ask->leaf = cJSON_GetObjectItemCaseSensitive(body, "parent_id") ? 0 : c.leaf_id;
    if (parent && (!id || !path_id_parse(parent, &ask->leaf)))
        return err_field(e, ERR_INPUT, "parent_id", "is not a message of this conversation");
    return ask->content || ask->leaf ||
           err_field(e, ERR_INPUT, "content", "is needed where nothing stands before it");
}

static bool count(struct request *r, struct err *e)
{
    const char *stored = "{}";
    /* a small body may name a long conversation */
    const cJSON *settings = NULL, *body = work_begin(r, WORK_TEXT, e) ? request_json(r, e) : NULL;
    int64_t attachments[STORE_MESSAGE_ATTACHMENTS];
    struct conversation_ask ask = {.attachments = {.ids = attachments}};
    struct prompt prompt = {0};
    struct status_page page;
    if (!body || !read_ask(r, body, &ask, &stored, e) ||
        !attachments_read(r, body, attachments, &ask.attachments.n, e) ||
        !json_get_object(body, "settings", &settings, e))
        return false;
    cJSON *checked = conversation_settings(r, stored, settings, e);
    cJSON *kwargs = checked ? conversation_kwargs(r, checked, e) : NULL;
    cJSON *offered = kwargs ? tool_offer_settings(r, checked, e) : NULL;
    ask.settings = offered;
    ask.kwargs = kwargs;
    bool ok = offered && conversation_render(r, &ask, &prompt, e);
    if (ok) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddNumberToObject(o, "prompt_tokens", (double)prompt.ids.n);
        cJSON_AddNumberToObject(o, "n_ctx", engine_status_read(r, &page) ? page.n_ctx : 0);
        reply_json(r, 200, o);
        cJSON_Delete(o);
    }
    prompt_fini(&prompt);
    cJSON_Delete(offered);
    cJSON_Delete(kwargs);
    cJSON_Delete(checked);
    return ok;
}

struct base_value {
    const char *name;
    enum server_setting own; /* the server's setting for it; SETTING__N: it has none */
    double value;
    bool unset; /* there is no value */
};

static void put_value(cJSON *values, const struct request *r, const struct base_value *v)
{
    double unused;
    cJSON *o = cJSON_AddObjectToObject(values, v->name);
    if (v->unset)
        cJSON_AddNullToObject(o, "value");
    else
        cJSON_AddNumberToObject(o, "value", v->value);
    cJSON_AddStringToObject(
        o, "from",
        v->own != SETTING__N && server_setting_number(r, v->own, &unused) ? "server" : "model");
}

static double rounded(float v) /* 0.7f is 0.7, not 0.699999988 */
{
    return (double)(long long)((double)v * 1e6 + (v < 0 ? -0.5 : 0.5)) / 1e6;
}

static bool base(struct request *r, struct err *e)
{
    struct settings s;
    const struct chat_template *t = r->worker->text->chat_template;
    const struct chat_traits none = {0}, *traits = t ? chat_template_traits(t) : &none;
    cJSON *o = cJSON_CreateObject(), *v = cJSON_AddObjectToObject(o, "values");
    (void)e;
    settings_begin(&s, r);
    const struct engine_sampling *p = &s.sampling;
    const struct base_value rows[] = {
        {"temperature", SETTING_DEFAULT_TEMPERATURE, rounded(p->temperature), false},
        {"top_p", SETTING_DEFAULT_TOP_P, rounded(p->top_p), false},
        {"top_k", SETTING_DEFAULT_TOP_K, p->top_k, false},
        {"min_p", SETTING_DEFAULT_MIN_P, rounded(p->min_p), false},
        {"repetition_penalty", SETTING_DEFAULT_REPETITION_PENALTY, rounded(p->repetition_penalty),
         false},
        {"presence_penalty", SETTING__N, rounded(p->presence_penalty), false},
        {"frequency_penalty", SETTING__N, rounded(p->frequency_penalty), false},
        {"max_tokens", SETTING_DEFAULT_MAX_TOKENS, s.max_tokens, s.max_tokens <= 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        put_value(v, r, &rows[i]);
    cJSON_AddBoolToObject(o, "thinking", traits->thinking);
    cJSON_AddBoolToObject(o, "thinking_switch", traits->thinking_switch);
    cJSON_AddBoolToObject(o, "effort", traits->effort);
    cJSON_AddBoolToObject(o, "tools", prompt_takes_tools(r));
    reply_json(r, 200, o);
    cJSON_Delete(o);
    return true;
}

const struct route api_changes_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/changes",
     .polled = true,
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = changes,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "What happened since: 204 when nothing did",
             .query = "ChangesQuery",
             .reply = "Changes",
             .statuses = "200 204 404"}},
    {.method = HTTP_POST,
     .path = "/api/count",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_CHAT_BODY,
     .handler = count,
     .scope = SCOPE_HISTORY | SCOPE_INFERENCE,
     .doc = {.summary = "Tokens of the prompt that a message would make",
             .body = "CountRequest",
             .reply = "Count",
             .statuses = "200 404"}},
    {.method = HTTP_GET,
     .path = "/api/defaults/base",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = base,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Values that hold where no setting says otherwise",
             .reply = "BaseSettings",
             .statuses = "200"}},
    {0},
};
