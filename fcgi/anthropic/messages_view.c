/* messages.h: the answer, whole or as Anthropic's events: message_start, then each block's start,
 * deltas and stop, then message_delta and message_stop. message_start waits until the engine has
 * said how much of the prompt its cache held, since it carries that count; comments keep the
 * connection alive before it, pings after it. */
#include <stdio.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/json/json.h"
#include "fcgi/anthropic/anthropic.h"
#include "fcgi/anthropic/messages.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/model_name.h"
#include "fcgi/inference/reduced_top_k.h"
#include "fcgi/openai/openai.h"
#include "fcgi/process/worker.h"

#define CALLER ",\"caller\":{\"type\":\"direct\"}"

/* Names the text, so that clients which keep only signed thinking keep it. Nothing checks it. */
static void put_signature(struct buf *b, const struct part *part)
{
    size_t len;
    const char *text = part_text(part, &len);
    buf_printf(b, "\"%016llx\"", (unsigned long long)hash64(text, len, 0));
}

static void put_id(struct buf *b, const struct part *part)
{
    buf_printf(b, "\"toolu_%s\"", part->call->id + strlen("call_"));
}

static void put_name(struct buf *b, const struct part *part)
{
    const struct buf *name = &part->call->name;
    buf_json_string(b, name->data ? name->data : "", name->len);
}

/* Tokens of the prompt that were computed and are kept, in whole blocks, for requests to come. They
 * count where the request asks for the cache; without, all that was computed is input. */
static int created(const struct messages_view *v, const struct engine_usage *u)
{
    const int whole = (int)(u->prompt_tokens - u->prompt_tokens % ENGINE_STORED_TOKENS);
    return v->cache_marked && whole > u->cached_tokens ? whole - (int)u->cached_tokens : 0;
}

/* Without the closing brace. thinking: tokens of it. */
static void put_usage(struct buf *b, const struct messages_view *v, const struct engine_usage *u,
                      int thinking)
{
    buf_printf(
        b,
        "{\"input_tokens\":%d,\"cache_creation_input_tokens\":%d,\"cache_read_input_tokens\":%d,"
        "\"output_tokens\":%d,\"output_tokens_details\":{\"thinking_tokens\":%d},\"server_tool_"
        "use\":null",
        (int)(u->prompt_tokens - u->cached_tokens) - created(v, u), created(v, u),
        (int)u->cached_tokens, (int)u->completion_tokens, thinking);
    reduced_top_k_put(b, u);
}

/* What only a whole message's usage has. A mark without a ttl is one of 5 minutes there. */
static void end_usage(struct buf *b, const struct messages_view *v, const struct engine_usage *u)
{
    const int n = created(v, u), hour = v->keep_seconds == 3600 ? n : 0;
    buf_puts(b, ",\"cache_creation\":");
    if (v->cache_marked)
        buf_printf(b, "{\"ephemeral_5m_input_tokens\":%d,\"ephemeral_1h_input_tokens\":%d}",
                   n - hour, hour);
    else
        buf_puts(b, "null");
    buf_puts(b, ",\"inference_geo\":null,\"service_tier\":\"standard\",\"speed\":null}");
}

/* ..."content": up to where the blocks go */
static void put_head(struct buf *b, const struct messages_view *v)
{
    char id[OPENAI_ID_SIZE];
    const char *model = model_name_of(v->stream.r);
    openai_id(id, "msg_", v->stream.r);
    buf_printf(b, "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", id);
    buf_json_string(b, model, strlen(model));
    ignored_write(b, v->stream.r);
    buf_puts(b, ",\"container\":null,\"diagnostics\":null,\"stop_details\":null,\"content\":[");
}

static void put_stop(struct buf *b, const struct messages_view *v)
{
    const struct generation *g = &v->stream.x->generations[0];
    bool stopped = g->finish == ENGINE_STOP_STRING && !g->n_calls;
    bool full = g->finish == ENGINE_LENGTH &&
                g->usage.completion_tokens < v->max_tokens; /* not the request's limit */
    const char *reason = full                         ? "model_context_window_exceeded"
                         : g->finish == ENGINE_LENGTH ? "max_tokens"
                         : g->n_calls                 ? "tool_use"
                         : stopped                    ? "stop_sequence"
                                                      : "end_turn";
    buf_printf(b, "\"stop_reason\":\"%s\",\"stop_sequence\":", reason);
    if (stopped)
        buf_json_string(b, g->stop_string.data ? g->stop_string.data : "", g->stop_string.len);
    else
        buf_puts(b, "null");
}

/* ---- whole */

static void put_block(struct buf *b, const struct part *part)
{
    size_t len;
    const char *text = part_text(part, &len);
    switch (part->kind) {
    case PART_REASONING:
        buf_puts(b, "{\"type\":\"thinking\",\"thinking\":");
        buf_json_string(b, text, len);
        buf_puts(b, ",\"signature\":");
        put_signature(b, part);
        break;
    case PART_TEXT:
        buf_puts(b, "{\"type\":\"text\",\"text\":");
        buf_json_string(b, text, len);
        buf_puts(b, ",\"citations\":null");
        break;
    default:
        buf_puts(b, "{\"type\":\"tool_use\",\"id\":");
        put_id(b, part);
        buf_puts(b, ",\"name\":");
        put_name(b, part);
        buf_puts(b, CALLER ",\"input\":");
        generation_put_arguments(b, text, len);
    }
    buf_putc(b, '}');
}

static void send_reply(void *context, const struct err *broken)
{
    struct messages_view *v = context;
    const struct generation *g = &v->stream.x->generations[0];
    struct buf *b = &v->stream.line;
    (void)broken;
    parts_close(&v->parts);
    put_head(b, v);
    for (int i = 0; i < v->parts.n; i++) {
        if (i)
            buf_putc(b, ',');
        put_block(b, &v->parts.at[i]);
    }
    buf_puts(b, "],");
    put_stop(b, v);
    buf_puts(b, ",\"usage\":");
    put_usage(b, v, &g->usage, g->n_reasoning);
    end_usage(b, v, &g->usage);
    buf_putc(b, '}');
    b->failed |= v->parts.failed;
    reply_json_buf(v->stream.r, 200, b);
}

/* ---- streamed */

static void send_event(struct messages_view *v, const char *name)
{
    v->stream.line.failed |= v->parts.failed;
    answer_stream_event(&v->stream, name);
    buf_clear(&v->stream.line);
}

static void start_message(struct messages_view *v)
{
    const struct generation *g = &v->stream.x->generations[0];
    const struct engine_usage so_far = {.prompt_tokens = v->n_prompt, .cached_tokens = g->cached};
    if (v->begun)
        return;
    v->begun = true;
    buf_puts(&v->stream.line, "{\"type\":\"message_start\",\"message\":");
    put_head(&v->stream.line, v);
    buf_puts(&v->stream.line, "],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":");
    put_usage(&v->stream.line, v, &so_far, 0);
    end_usage(&v->stream.line, v, &so_far);
    buf_puts(&v->stream.line, "}}");
    send_event(v, "message_start");
}

static void ping(struct messages_view *v)
{
    v->pinged = true;
    buf_puts(&v->stream.line, "{\"type\":\"ping\"}");
    send_event(v, "ping");
}

static void open_block(void *context, const struct part *part, int index)
{
    struct messages_view *v = context;
    struct buf *b = &v->stream.line;
    start_message(v);
    buf_printf(b, "{\"type\":\"content_block_start\",\"index\":%d,\"content_block\":", index);
    if (part->kind == PART_REASONING) {
        buf_puts(b, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}");
    } else if (part->kind == PART_TEXT) {
        buf_puts(b, "{\"type\":\"text\",\"text\":\"\"}}");
    } else {
        buf_puts(b, "{\"type\":\"tool_use\",\"id\":");
        put_id(b, part);
        buf_puts(b, ",\"name\":");
        put_name(b, part);
        buf_puts(b, CALLER ",\"input\":{}}}");
    }
    send_event(v, "content_block_start");
    if (!v->pinged)
        ping(v);
}

static void grow_block(void *context, const struct part *part, int index, const char *piece,
                       size_t len)
{
    static const char *const deltas[] = {
        "\"type\":\"thinking_delta\",\"thinking\":", "\"type\":\"text_delta\",\"text\":",
        "\"type\":\"input_json_delta\",\"partial_json\":"};
    struct messages_view *v = context;
    buf_printf(&v->stream.line, "{\"type\":\"content_block_delta\",\"index\":%d,\"delta\":{%s",
               index, deltas[part->kind]);
    buf_json_string(&v->stream.line, piece, len);
    buf_puts(&v->stream.line, "}}");
    send_event(v, "content_block_delta");
}

static void close_block(void *context, const struct part *part, int index)
{
    struct messages_view *v = context;
    if (part->kind == PART_REASONING) {
        buf_printf(&v->stream.line,
                   "{\"type\":\"content_block_delta\",\"index\":%d,\"delta\":{\"type\":\"signature_"
                   "delta\","
                   "\"signature\":",
                   index);
        put_signature(&v->stream.line, part);
        buf_puts(&v->stream.line, "}}");
        send_event(v, "content_block_delta");
    }
    buf_printf(&v->stream.line, "{\"type\":\"content_block_stop\",\"index\":%d}", index);
    send_event(v, "content_block_stop");
}

static void take_delta(void *context, int choice, const struct chat_delta *d)
{
    struct messages_view *v = context;
    parts_take(&v->parts, &v->stream.x->generations[choice], d);
}

static void take_progress(void *context, int choice)
{
    (void)choice;
    start_message(context);
}

static void keep_alive(void *context)
{
    struct messages_view *v = context;
    if (v->begun)
        ping(v);
    else
        sse_comment(&v->stream.sse, "queued %d", v->stream.x->generations[0].queue_position);
}

static void begin(void *context)
{
    struct messages_view *v = context;
    answer_stream_begin(&v->stream);
}

static void end(void *context, const struct err *broken)
{
    struct messages_view *v = context;
    const struct generation *g = &v->stream.x->generations[0];
    if (broken) {
        anthropic_error(&v->stream.line, v->stream.r, broken);
        send_event(v, "error");
    } else {
        start_message(v);
        parts_close(&v->parts);
        buf_puts(&v->stream.line, "{\"type\":\"message_delta\",\"delta\":{");
        put_stop(&v->stream.line, v);
        buf_puts(&v->stream.line, "},\"usage\":");
        put_usage(&v->stream.line, v, &g->usage, g->n_reasoning);
        buf_puts(&v->stream.line, "}}");
        send_event(v, "message_delta");
        buf_puts(&v->stream.line, "{\"type\":\"message_stop\"}");
        send_event(v, "message_stop");
    }
    sse_flush(&v->stream.sse);
}

struct answer_view messages_view(struct messages_view *v, struct request *r,
                                 const struct chat_request *c, const struct inference_params *p,
                                 const struct inference *x)
{
    *v = (struct messages_view){.stream = {.r = r, .x = x},
                                .n_prompt = p->job.n_prompt,
                                .max_tokens = p->job.max_tokens,
                                .cache_marked = c->cache_marked,
                                .keep_seconds = c->keep_seconds};
    if (!c->streaming.stream)
        return (struct answer_view){.listener = {.context = v, .delta = take_delta},
                                    .end = send_reply};
    v->parts.listener = (struct parts_listener){
        .context = v, .opened = open_block, .grown = grow_block, .closed = close_block};
    return (struct answer_view){
        .listener = {.context = v,
                     .delta = take_delta,
                     .progress = take_progress,
                     .pause = answer_stream_pause,
                     .idle_ms = answer_stream_idle_ms,
                     .idle = keep_alive},
        .begin = begin,
        .end = end,
    };
}

void messages_view_fini(struct messages_view *v)
{
    answer_stream_fini(&v->stream);
    parts_fini(&v->parts);
}
