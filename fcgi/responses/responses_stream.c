/* responses.h: the answer as OpenAI's events, numbered: created, in_progress; each item as added,
 * its part as added, its deltas, and the same three done; then completed, incomplete or failed,
 * with the whole response. No [DONE]: this API has none. */
#include <stdio.h>
#include <string.h>

#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/responses/responses.h"

/* {"type":...,"sequence_number":... */
static void begin_event(struct responses_view *v, const char *type)
{
    buf_clear(&v->stream.line);
    buf_printf(&v->stream.line, "{\"type\":\"%s\",\"sequence_number\":%d", type, v->sequence++);
}

static void send_event(struct responses_view *v, const char *type)
{
    buf_putc(&v->stream.line, '}');
    v->stream.line.failed |= v->parts.failed;
    answer_stream_event(&v->stream, type);
}

/* ...,"item_id":...,"output_index":... */
static void name_item(struct responses_view *v, const struct part *part, int index)
{
    char id[RESPONSES_ID_SIZE];
    responses_part_id(id, v, index);
    buf_printf(&v->stream.line, ",\"item_id\":\"%s\",\"output_index\":%d", id, index);
    if (part->kind != PART_CALL)
        buf_puts(&v->stream.line, ",\"content_index\":0");
}

static void send_item(struct responses_view *v, const char *type, int index, const char *status)
{
    begin_event(v, type);
    buf_printf(&v->stream.line, ",\"output_index\":%d,\"item\":", index);
    responses_put_item(&v->stream.line, v, index, status);
    send_event(v, type);
}

static void send_part(struct responses_view *v, const char *type, const struct part *part,
                      int index, bool done)
{
    size_t len = 0;
    const char *text = done ? part_text(part, &len) : "";
    begin_event(v, type);
    name_item(v, part, index);
    buf_printf(&v->stream.line, ",\"part\":{\"type\":\"%s\",\"text\":",
               part->kind == PART_TEXT ? "output_text" : "reasoning_text");
    buf_json_string(&v->stream.line, text, len);
    if (part->kind == PART_TEXT)
        buf_printf(&v->stream.line, ",\"annotations\":[],\"logprobs\":[%s]",
                   done && part->logprobs.len ? part->logprobs.data : "");
    buf_putc(&v->stream.line, '}');
    send_event(v, type);
}

struct summary_event {
    const char *name;   /* of response.reasoning_summary_NAME */
    const char *member; /* "part", "delta" or "text" */
    const char *text;   /* [len] */
    size_t len;
};

/* An event of the reasoning's summary, which is the reasoning itself. */
static void send_summary(struct responses_view *v, int index, const struct summary_event *s)
{
    char id[RESPONSES_ID_SIZE], type[64];
    const bool part = !strcmp(s->member, "part");
    snprintf(type, sizeof type, "response.reasoning_summary_%s", s->name);
    responses_item_id(id, "rs", v->stream.r, index);
    begin_event(v, type);
    buf_printf(&v->stream.line,
               ",\"item_id\":\"%s\",\"output_index\":%d,\"summary_index\":0,\"%s\":%s", id, index,
               s->member, part ? "{\"type\":\"summary_text\",\"text\":" : "");
    buf_json_string(&v->stream.line, s->text, s->len);
    if (part)
        buf_putc(&v->stream.line, '}');
    send_event(v, type);
}

static bool is_summarised(const struct responses_view *v, const struct part *part)
{
    return v->q->summary && part->kind == PART_REASONING;
}

static void open_item(void *context, const struct part *part, int index)
{
    struct responses_view *v = context;
    send_item(v, "response.output_item.added", index, "in_progress");
    if (part->kind != PART_CALL)
        send_part(v, "response.content_part.added", part, index, false);
    if (is_summarised(v, part))
        send_summary(v, index, &(struct summary_event){"part.added", "part", "", 0});
}

static void grow_item(void *context, const struct part *part, int index, const char *piece,
                      size_t len)
{
    static const char *const types[] = {"response.reasoning_text.delta",
                                        "response.output_text.delta",
                                        "response.function_call_arguments.delta"};
    struct responses_view *v = context;
    begin_event(v, types[part->kind]);
    name_item(v, part, index);
    buf_puts(&v->stream.line, ",\"delta\":");
    buf_json_string(&v->stream.line, piece, len);
    if (part->kind == PART_TEXT)
        buf_printf(&v->stream.line, ",\"logprobs\":[%s]", v->pending.len ? v->pending.data : "");
    send_event(v, types[part->kind]);
    if (is_summarised(v, part))
        send_summary(v, index, &(struct summary_event){"text.delta", "delta", piece, len});
}

static void close_item(void *context, const struct part *part, int index)
{
    static const char *const types[] = {"response.reasoning_text.done", "response.output_text.done",
                                        "response.function_call_arguments.done"};
    struct responses_view *v = context;
    size_t len;
    const char *text = part_text(part, &len);
    begin_event(v, types[part->kind]);
    name_item(v, part, index);
    buf_printf(&v->stream.line, ",\"%s\":", part->kind == PART_CALL ? "arguments" : "text");
    buf_json_string(&v->stream.line, text, len);
    if (part->kind == PART_TEXT) {
        buf_printf(&v->stream.line, ",\"logprobs\":[%s]",
                   part->logprobs.len ? part->logprobs.data : "");
    } else if (part->kind == PART_CALL) {
        const struct buf *name = &part->call->name;
        buf_puts(&v->stream.line, ",\"name\":");
        buf_json_string(&v->stream.line, name->data ? name->data : "", name->len);
    }
    send_event(v, types[part->kind]);
    if (part->kind != PART_CALL)
        send_part(v, "response.content_part.done", part, index, true);
    if (is_summarised(v, part)) {
        send_summary(v, index, &(struct summary_event){"text.done", "text", text, len});
        send_summary(v, index, &(struct summary_event){"part.done", "part", text, len});
    }
    bool cut = v->stream.x->generations[0].finish == ENGINE_LENGTH ||
               v->stream.x->generations[0].state == GENERATION_FAILED;
    send_item(v, "response.output_item.done", index, cut ? "incomplete" : "completed");
}

static void send_response(struct responses_view *v, const char *type, const char *status,
                          const struct err *error)
{
    begin_event(v, type);
    buf_puts(&v->stream.line, ",\"response\":");
    responses_put(&v->stream.line, v, status, error);
    send_event(v, type);
}

static void begin(void *context)
{
    struct responses_view *v = context;
    answer_stream_begin(&v->stream);
    send_response(v, "response.created", "in_progress", NULL);
    send_response(v, "response.in_progress", "in_progress", NULL);
}

/* The stored text is the one that is sent. */
static void send_finish(struct responses_view *v)
{
    bool whole = !strcmp(responses_status(v), "completed");
    const char *type = whole ? "response.completed" : "response.incomplete";
    struct buf response = {0};
    responses_finish(v);
    buf_append(&response, v->stream.line.data, v->stream.line.len);
    response.failed |= v->stream.line.failed;
    begin_event(v, type);
    buf_puts(&v->stream.line, ",\"response\":");
    buf_append(&v->stream.line, response.data, response.len);
    v->stream.line.failed |= response.failed;
    send_event(v, type);
    buf_fini(&response);
}

static void end(void *context, const struct err *broken)
{
    struct responses_view *v = context;
    if (broken) {
        v->q->store = false;
        send_response(v, "response.failed", "failed", broken);
    } else {
        send_finish(v);
    }
    sse_flush(&v->stream.sse);
}

void responses_stream(struct responses_view *v, struct answer_view *view)
{
    v->parts.listener = (struct parts_listener){
        .context = v, .opened = open_item, .grown = grow_item, .closed = close_item};
    view->listener.pause = answer_stream_pause;
    view->listener.idle_ms = answer_stream_idle_ms;
    view->listener.idle = answer_stream_keep_alive;
    view->begin = begin;
    view->end = end;
}

const struct api_dialect responses_dialect = {
    .error = reply_error_object,
    .stream_abort =
        {.close_event = DIALECT_SSE_CLOSE,
         .error_event =
             "event: error\ndata: "
             "{\"type\":\"error\",\"code\":\"worker_lost\",\"message\":\"" DIALECT_ABORT_TEXT "\","
             "\"param\":null}\n\n"},
};
