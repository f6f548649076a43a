/* POST /v1/responses/compact: a conversation in fewer tokens. What the user said stays as it is, as
 * far as it leaves half of the context free; all else becomes one `compaction` item, which holds a
 * summary that the model writes. */
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/openai.h"
#include "fcgi/process/worker.h"
#include "fcgi/responses/responses.h"
#include "fcgi/status/engine_status.h"

#define SUMMARY_TOKENS 2048 /* or an eighth of the context, if that is less */

static const char instruction[] =
    "Summarise the conversation above, so that it can be carried on from the summary alone. Say "
    "what the user wants and has "
    "decided; what was done and found, with names, files, figures and results as they are; what is "
    "still open, and what comes "
    "next. Call no tools. Reply with the summary alone, in the language of the conversation.";

static const struct field_row compact_fields[] = {
    {"model", FIELD_READ},
    {"input", FIELD_READ},
    {"instructions", FIELD_READ},
    {"previous_response_id", FIELD_READ},
    {"conversation", FIELD_READ},
    {"cache_salt", FIELD_READ},
    {"prompt_cache_key", FIELD_READ},
    {"prompt_cache_options", FIELD_INERT},
    {"prompt_cache_retention", FIELD_READ},
    {"service_tier", FIELD_INERT},
    {"tools", FIELD_INERT}, /* agents send the whole request that they would have made */
    {"tool_choice", FIELD_INERT},
    {"parallel_tool_calls", FIELD_INERT},
    {"reasoning", FIELD_INERT},
    {"text", FIELD_INERT},
    {NULL, FIELD_READ},
};

static int32_t context_of(const struct request *r)
{
    struct status_page page;
    engine_status_read(r, &page);
    return page.n_ctx;
}

static bool read_request(struct responses_request *q, struct request *r, struct err *e)
{
    chat_request_init(&q->chat, r, "input");
    q->truncate = q->compacts = true;
    cJSON *body = field_body(r, e);
    if (!body || !fields_take(r, body, compact_fields, e) ||
        !chat_request_model(&q->chat, r, body, e))
        return false;
    const int32_t n_ctx = context_of(r); /* of the model that was just named */
    q->chat.owned = cJSON_CreateObject();
    q->chat.messages = cJSON_AddArrayToObject(q->chat.owned, "messages");
    struct chat_build b = {.messages = q->chat.messages};
    if (!chat_read_cache(&q->chat, body, e) || !responses_read_items(q, r, &b, body, e))
        return false;
    chat_build_text(&b, chat_build_message(&b, "user"), instruction);
    q->chat.settings.sampling.temperature = 0.2f;
    q->chat.settings.max_tokens =
        n_ctx > 0 && n_ctx / 8 < SUMMARY_TOKENS ? n_ctx / 8 + 1 : SUMMARY_TOKENS;
    return chat_think_least(&q->chat, r, e) &&
           (!b.failed || err_set(e, ERR_NOMEM, "no memory for the input"));
}

struct view {
    struct request *r;
    struct responses_request *q;
    const struct inference *x;
    struct buf text; /* of the message that is weighed */
    struct buf out;
    int n;
};

static bool is_of_user(const cJSON *item)
{
    const char *type = json_text(item, "type"), *role = json_text(item, "role");
    return type && role && !strcmp(type, "message") && !strcmp(role, "user");
}

/* What a message takes of the context, roughly: the tokens of its JSON. */
static size_t tokens_of(struct view *v, const cJSON *item)
{
    struct ids ids = {0};
    struct err none = {0};
    buf_clear(&v->text);
    json_write(&v->text, json_member(item, "content"));
    size_t n = v->text.len;
    if (!v->text.failed &&
        tokenizer_encode(v->r->worker->text->tokenizer,
                         &(struct tokenizer_input){
                             .text = v->text.data, .len = v->text.len, .mode = TOKENIZE_PLAIN},
                         &ids, &none))
        n = ids.n;
    ids_fini(&ids);
    return n;
}

/* The user's messages that fit into half of the context, the newest first; gives the oldest of
 * them. */
static const cJSON *oldest_kept(struct view *v, const cJSON *items, int *dropped)
{
    const int32_t n_ctx = context_of(v->r);
    size_t room = n_ctx > 0 ? (size_t)n_ctx / 2 : SIZE_MAX;
    const cJSON *kept = NULL,
                *item = items->child ? items->child->prev : NULL; /* the first's prev is the last */
    for (; item; item = item == items->child ? NULL : item->prev) {
        if (!is_of_user(item))
            continue;
        const size_t n = *dropped ? 0 : tokens_of(v, item);
        if (*dropped || n > room) {
            ++*dropped;
            continue;
        }
        room -= n;
        kept = item;
    }
    return kept;
}

static void put_messages(struct view *v)
{
    char message[IGNORED_MESSAGE_BYTES];
    cJSON *all = v->q->chain, *item;
    int dropped = 0;
    while ((item = cJSON_DetachItemFromArray(v->q->input, 0)))
        cJSON_AddItemToArray(all, item);
    for (const cJSON *at = oldest_kept(v, all, &dropped); at; at = at->next) {
        if (!is_of_user(at))
            continue;
        if (v->n++)
            buf_putc(&v->out, ',');
        json_write(&v->out, at);
    }
    if (dropped) {
        snprintf(message, sizeof message,
                 "%d of the user's oldest messages were left out: those after them fill half of "
                 "the context",
                 dropped);
        ignored_warn(v->r, "output", message, false);
    }
}

static void put_compaction(struct view *v)
{
    const struct generation *g = &v->x->generations[0];
    struct buf content = {0};
    char id[RESPONSES_ID_SIZE];
    responses_item_id(id, "cmp", v->r, 0);
    responses_compaction_write(&content, g->content.data ? g->content.data : "", g->content.len);
    buf_printf(&v->out, "%s{\"id\":\"%s\",\"type\":\"compaction\",\"encrypted_content\":\"%s\"}",
               v->n ? "," : "", id, content.data ? content.data : "");
    v->out.failed |= content.failed;
    buf_fini(&content);
    if (!g->content.len)
        ignored_warn(v->r, "output", "the model wrote no summary", false);
    else if (g->finish == ENGINE_LENGTH)
        ignored_warn(v->r, "output", "the summary was cut at its longest", false);
}

static void send_reply(void *context, const struct err *broken)
{
    struct view *v = context;
    char id[OPENAI_ID_SIZE];
    (void)broken;
    openai_id(id, "resp_", v->r);
    buf_printf(&v->out,
               "{\"id\":\"%s\",\"object\":\"response.compaction\",\"created_at\":%lld,\"output\":[",
               id, (long long)clock_wall_s());
    put_messages(v);
    put_compaction(v);
    buf_puts(&v->out, "],\"usage\":");
    responses_put_usage(&v->out, &v->x->generations[0]);
    ignored_write(&v->out, v->r);
    buf_putc(&v->out, '}');
    reply_json_buf(v->r, 200, &v->out);
}

bool responses_compact(struct request *r, struct err *e)
{
    struct responses_request q = {0};
    struct prompt prompt = {0};
    struct inference_params p;
    struct inference x = {0};
    struct view v = {.r = r, .q = &q, .x = &x};
    const struct answer_view whole = {.listener = {.context = &v}, .end = send_reply};
    bool ok = read_request(&q, r, e) && responses_job_make(&p, &prompt, r, &q, e) &&
              answer_view_run(&x, r, &p, &whole, e);
    inference_end(&x);
    buf_fini(&v.text);
    buf_fini(&v.out);
    prompt_fini(&prompt);
    responses_request_fini(&q);
    return ok;
}
