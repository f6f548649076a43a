/* responses.h: the answer as items and as the response object. */
#define LOG_MODULE "responses"
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "engine/base/log.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/model_name.h"
#include "fcgi/inference/cache_usage.h"
#include "fcgi/inference/reduced_top_k.h"
#include "fcgi/openai/openai.h"
#include "fcgi/process/worker.h"
#include "fcgi/responses/responses.h"
#include "sql/chats/store_responses.h"
#include "sql/prompts/store_prompt_blocks.h"

static const struct generation *generation_of(const struct responses_view *v)
{
    return &v->stream.x->generations[0];
}

const char *responses_status(const struct responses_view *v)
{
    return generation_of(v)->finish == ENGINE_LENGTH ? "incomplete" : "completed";
}

static void put_call(struct buf *b, const struct part *part, const char *text, size_t len)
{
    const struct buf *name = &part->call->name;
    buf_puts(b, ",\"arguments\":");
    buf_json_string(b, text, len);
    buf_printf(b, ",\"call_id\":\"%s\",\"name\":", part->call->id);
    buf_json_string(b, name->data ? name->data : "", name->len);
}

static void put_text_part(struct buf *b, const char *type, const char *text, size_t len)
{
    buf_printf(b, "{\"type\":\"%s\",\"text\":", type);
    buf_json_string(b, text, len);
    buf_putc(b, '}');
}

void responses_part_id(char out[RESPONSES_ID_SIZE], const struct responses_view *v, int index)
{
    static const char *const prefixes[] = {"rs", "msg", "fc"};
    responses_item_id(out, prefixes[v->parts.at[index].kind], v->stream.r, index);
}

void responses_put_item(struct buf *b, const struct responses_view *v, int index,
                        const char *status)
{
    static const char *const names[] = {"reasoning", "message", "function_call"};
    const struct part *part = &v->parts.at[index];
    bool begun =
        strcmp(status, "in_progress") != 0; /* an item that has just been opened is empty */
    size_t len = 0;
    const char *text = begun ? part_text(part, &len) : "";
    char id[RESPONSES_ID_SIZE];
    responses_part_id(id, v, index);
    buf_printf(b, "{\"id\":\"%s\",\"type\":\"%s\",\"status\":\"%s\"", id, names[part->kind],
               status);
    switch (part->kind) {
    case PART_REASONING:
        buf_puts(b, ",\"summary\":[");
        if (begun && v->q->summary)
            put_text_part(b, "summary_text", text, len);
        buf_puts(b, "],\"content\":[");
        if (begun)
            put_text_part(b, "reasoning_text", text, len);
        buf_puts(b, "],\"encrypted_content\":null");
        break;
    case PART_TEXT:
        buf_puts(b, ",\"role\":\"assistant\",\"content\":[");
        if (begun) {
            buf_puts(b, "{\"type\":\"output_text\",\"text\":");
            buf_json_string(b, text, len);
            buf_printf(b, ",\"annotations\":[],\"logprobs\":[%s]}",
                       part->logprobs.len ? part->logprobs.data : "");
        }
        buf_putc(b, ']');
        break;
    default:
        put_call(b, part, text, len);
    }
    buf_putc(b, '}');
    b->failed |= part->logprobs.failed;
}

void responses_put_usage(struct buf *b, const struct generation *g)
{
    const struct engine_usage *u = &g->usage;
    buf_printf(b,
               "{\"input_tokens\":%d,\"input_tokens_details\":{\"cached_tokens\":%d,\"cache_write_"
               "tokens\":0,\"cached_from\":",
               (int)u->prompt_tokens, (int)u->cached_tokens);
    cache_usage_put_from(b, u);
    buf_printf(b,
               "},"
               "\"output_tokens\":%d,\"output_tokens_details\":{\"reasoning_tokens\":%d},\"total_"
               "tokens\":%d",
               (int)u->completion_tokens, g->n_reasoning,
               (int)(u->prompt_tokens + u->completion_tokens));
    reduced_top_k_put(b, u);
    buf_putc(b, '}');
}

static void put_error(struct buf *b, const struct err *error)
{
    if (!error) {
        buf_puts(b, "null");
        return;
    }
    buf_puts(b, "{\"code\":\"server_error\",\"message\":");
    buf_json_string(b, error->text, strlen(error->text));
    buf_putc(b, '}');
}

void responses_put(struct buf *b, const struct responses_view *v, const char *status,
                   const struct err *error)
{
    const char *model = model_name_of(v->stream.r);
    char id[OPENAI_ID_SIZE];
    bool done = generation_of(v)->state == GENERATION_DONE, cut = !strcmp(status, "incomplete");
    openai_id(id, "resp_", v->stream.r);
    buf_printf(b,
               "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\","
               "\"background\":false",
               id, (long long)v->created, status);
    if (v->completed)
        buf_printf(b, ",\"completed_at\":%lld", (long long)v->completed);
    else
        buf_puts(b, ",\"completed_at\":null");
    buf_puts(b, ",\"error\":");
    put_error(b, error);
    buf_printf(b, ",\"incomplete_details\":%s,\"model\":",
               cut ? "{\"reason\":\"max_output_tokens\"}" : "null");
    buf_json_string(b, model, strlen(model));
    buf_append(b, v->q->echo.data, v->q->echo.len);
    if (v->q->conversation && v->q->appended) {
        buf_puts(b, ",\"conversation\":{\"id\":");
        buf_json_string(b, v->q->conversation, strlen(v->q->conversation));
        buf_putc(b, '}');
    } else {
        buf_puts(b, ",\"conversation\":null");
    }
    ignored_write(b, v->stream.r);
    buf_printf(b, ",\"store\":%s,\"output\":[", v->q->store ? "true" : "false");
    bool listed = strcmp(status, "in_progress") != 0;
    for (int i = 0; listed && i < v->parts.n; i++) {
        if (i)
            buf_putc(b, ',');
        responses_put_item(b, v, i,
                           i == v->parts.n - 1 && !(done && !cut) ? "incomplete" : "completed");
    }
    buf_puts(b, "],\"usage\":");
    if (done)
        responses_put_usage(b, generation_of(v));
    else
        buf_puts(b, "null");
    buf_putc(b, '}');
    b->failed |= v->parts.failed;
}

static bool keep(const struct responses_view *v, struct err *e)
{
    struct buf input = {0};
    char id[OPENAI_ID_SIZE];
    int64_t now = clock_wall_ms();
    openai_id(id, "resp_", v->stream.r);
    struct store_response row = {.id = id,
                                 .user_id = v->stream.r->who.user_id,
                                 .previous_id = v->q->previous,
                                 .created_at = now,
                                 .conversation_id = v->q->conversation,
                                 .conversation_position = v->q->conversation_position,
                                 .expires_at = now + RESPONSES_KEPT_MS,
                                 .response = v->stream.line.data,
                                 .storage_bytes = v->stream.r->who.limits.storage_bytes};
    bool ok = !v->stream.line.failed && json_write(&input, v->q->input);
    row.input = input.data;
    ok = ok ? store_response_add(v->stream.r->store, &row, e)
            : err_set(e, ERR_NOMEM, "no memory for the response");
    buf_fini(&input);
    return ok;
}

/* Its blocks are, or will be, listed as those of a response that nobody can delete. */
static void forget_prompt(const struct responses_view *v)
{
    struct err e = {0};
    char id[OPENAI_ID_SIZE];
    int64_t removed;
    openai_id(id, "resp_", v->stream.r);
    if (!store_prompts_forget(v->stream.r->store,
                              &(struct store_forgetting){.what = FORGET_OWNED,
                                                         .user_id = v->stream.r->who.user_id,
                                                         .label = id},
                              &removed, &e))
        log_warn("id=%s its prompt stays in the cache: %s", v->stream.r->id, e.text);
}

void responses_finish(struct responses_view *v)
{
    struct err e = {0};
    parts_close(&v->parts);
    v->completed = clock_wall_s();
    if (v->q->conversation)
        responses_conversation_append(v);
    buf_clear(&v->stream.line);
    responses_put(&v->stream.line, v, responses_status(v), NULL);
    if (!v->q->store || keep(v, &e))
        return;
    log_warn("id=%s not stored: %s", v->stream.r->id, e.text);
    forget_prompt(v);
    v->q->store = false;
    buf_clear(&v->stream.line);
    responses_put(&v->stream.line, v, responses_status(v), NULL);
}

/* ---- whole */

static void take_tokens(void *context, int choice, const struct engine_event *ev)
{
    struct responses_view *v = context;
    (void)choice;
    if (v->q->logprobs)
        openai_event_logprobs(&v->pending, v->stream.r, ev);
}

static void take_delta(void *context, int choice, const struct chat_delta *d)
{
    struct responses_view *v = context;
    parts_take(&v->parts, &v->stream.x->generations[choice], d);
    if (d->type == CHAT_CONTENT && v->pending.len) {
        struct buf *all = &v->parts.at[v->parts.n - 1].logprobs;
        if (all->len)
            buf_putc(all, ',');
        buf_append(all, v->pending.data, v->pending.len);
    }
    if (d->len) /* what markup and reasoning were made of is nobody's */
        buf_clear(&v->pending);
}

static void send_reply(void *context, const struct err *broken)
{
    struct responses_view *v = context;
    (void)broken;
    responses_finish(v);
    reply_json_buf(v->stream.r, 200, &v->stream.line);
}

struct answer_view responses_view(struct responses_view *v, struct request *r,
                                  struct responses_request *q, const struct inference *x)
{
    *v = (struct responses_view){.stream = {.r = r, .x = x}, .q = q, .created = clock_wall_s()};
    struct answer_view view = {
        .listener = {.context = v, .tokens = take_tokens, .delta = take_delta}, .end = send_reply};
    if (q->chat.streaming.stream)
        responses_stream(v, &view);
    return view;
}

void responses_view_fini(struct responses_view *v)
{
    answer_stream_fini(&v->stream);
    parts_fini(&v->parts);
    buf_fini(&v->pending);
}
