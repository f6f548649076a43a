/* Encodes and decodes events: the second half of message.h. */
#include <stdlib.h>
#include <string.h>

#include "engine/wire/message.h"
#include "engine/wire/message_parts.h"

#define MAX_EVENT_TEXT ((uint32_t)16 << 20)
#define MAX_EVENT_TOKENS 65536u

static const enum frame_type types[] = {
    [ENGINE_ACCEPTED] = FRAME_ACCEPTED, [ENGINE_PROGRESS] = FRAME_PROGRESS,
    [ENGINE_TOKENS] = FRAME_TOKENS,     [ENGINE_PROMPT_SCORES] = FRAME_PROMPT_SCORES,
    [ENGINE_VECTORS] = FRAME_VECTORS,   [ENGINE_DONE] = FRAME_DONE,
    [ENGINE_FAILED] = FRAME_ERROR,
};

static void put_tokens(struct buf *b, const struct engine_event *ev)
{
    frame_put_u32(b, (uint32_t)ev->n_tokens);
    for (int32_t i = 0; i < ev->n_tokens; i++) {
        const struct engine_token *t = &ev->tokens[i];
        frame_put_u32(b, (uint32_t)t->id);
        frame_put_f32(b, t->logprob);
        frame_put_u32(b, (uint32_t)t->rank);
        frame_put_u32(b, (uint32_t)t->n_top);
        for (int32_t k = 0; k < t->n_top; k++) {
            frame_put_u32(b, (uint32_t)t->top[k].id);
            frame_put_f32(b, t->top[k].logprob);
        }
    }
    frame_put_f64(b, ev->decode_ms);
    frame_put_bytes(b, ev->text, (uint32_t)ev->text_len);
}

static void put_memory(struct buf *b, const struct engine_memory *m)
{
    frame_put_u64(b, m->resident);
    frame_put_u64(b, m->anonymous);
    frame_put_u64(b, m->mapped);
    frame_put_u64(b, m->locked);
    frame_put_u64(b, m->device);
}

static void put_cache(struct buf *b, const struct engine_usage *u)
{
    frame_put_u32(b, (uint32_t)u->cached_from_ram);
    frame_put_u32(b, (uint32_t)u->cached_from_disk);
    frame_put_u64(b, u->cache_bytes);
    frame_put_f64(b, u->cache_ms);
    frame_put_bytes(b, u->cache_miss, (uint32_t)strlen(u->cache_miss));
}

static void put_done(struct buf *b, const struct engine_event *ev)
{
    const struct engine_usage *u = &ev->usage;
    const char *stop = ev->stop_string ? ev->stop_string : "";
    frame_put_u32(b, (uint32_t)ev->finish);
    frame_put_bytes(b, stop, (uint32_t)strlen(stop));
    frame_put_u32(b, (uint32_t)u->prompt_tokens);
    frame_put_u32(b, (uint32_t)u->cached_tokens);
    frame_put_u32(b, (uint32_t)u->completion_tokens);
    put_cache(b, u);
    frame_put_f64(b, u->queue_ms);
    frame_put_f64(b, u->prefill_ms);
    frame_put_f64(b, u->decode_ms);
    frame_put_f64(b, u->prefill_tokens_per_s);
    frame_put_f64(b, u->decode_tokens_per_s);
    for (int i = 0; i < ENGINE_EXPERT__N; i++)
        frame_put_f64(b, u->experts[i]);
    put_memory(b, &u->memory);
    frame_put_u32(b, (uint32_t)u->reduced_top_k);
    frame_put_u32(b, (uint32_t)u->trained_top_k);
    message_put_speculation(b, &u->speculation);
}

void message_put_event(struct buf *b, const struct engine_event *ev)
{
    size_t start = frame_begin(b, types[ev->type]);
    frame_put_u64(b, ev->job);
    switch (ev->type) {
    case ENGINE_ACCEPTED:
        frame_put_u32(b, (uint32_t)ev->queue_position);
        break;
    case ENGINE_PROGRESS:
        frame_put_u32(b, (uint32_t)ev->done);
        frame_put_u32(b, (uint32_t)ev->total);
        frame_put_u32(b, (uint32_t)ev->cached);
        break;
    case ENGINE_PROMPT_SCORES:
        frame_put_u32(b, (uint32_t)ev->done);
        put_tokens(b, ev);
        break;
    case ENGINE_TOKENS:
        put_tokens(b, ev);
        break;
    case ENGINE_VECTORS:
        message_put_vectors(b, ev);
        break;
    case ENGINE_DONE:
        put_done(b, ev);
        break;
    case ENGINE_FAILED:
        frame_put_u32(b, (uint32_t)ev->error.code);
        frame_put_bytes(b, ev->error.field, (uint32_t)strlen(ev->error.field));
        frame_put_bytes(b, ev->error.text, (uint32_t)strlen(ev->error.text));
        break;
    }
    frame_end(b, start);
}

static bool box_reserve(struct event_box *box, uint32_t n)
{
    if ((uint32_t)box->cap_tokens >= n)
        return true;
    struct engine_token *grown = realloc(box->tokens, n * sizeof *grown);
    if (!grown)
        return false;
    box->tokens = grown;
    box->cap_tokens = (int32_t)n;
    return true;
}

static bool get_tokens(struct frame_reader *r, struct engine_event *ev, struct event_box *box,
                       struct err *e)
{
    uint32_t n = frame_get_u32(r);
    /* 16 bytes a token at least: a lying count fails here, before memory is taken for it */
    if (r->failed || n > MAX_EVENT_TOKENS || (size_t)(r->end - r->at) < (size_t)n * 16)
        return r->failed = true;
    if (!box_reserve(box, n))
        return err_set(e, ERR_NOMEM, "no memory for %u tokens", n);
    for (uint32_t i = 0; i < n; i++) {
        struct engine_token *t = &box->tokens[i];
        t->id = (int32_t)frame_get_u32(r);
        t->logprob = frame_get_f32(r);
        t->rank = (int32_t)frame_get_u32(r);
        uint32_t n_top = frame_get_u32(r);
        if (n_top > ENGINE_MAX_TOP_LOGPROBS)
            return r->failed = true;
        t->n_top = (int32_t)n_top;
        for (uint32_t k = 0; k < n_top; k++) {
            t->top[k].id = (int32_t)frame_get_u32(r);
            t->top[k].logprob = frame_get_f32(r);
        }
    }
    uint32_t len;
    ev->decode_ms = frame_get_f64(r);
    ev->text = frame_get_bytes(r, MAX_EVENT_TEXT, &len);
    ev->text_len = len;
    ev->tokens = box->tokens;
    ev->n_tokens = (int32_t)n;
    return true;
}

static void get_text(struct frame_reader *r, char *out, size_t size)
{
    uint32_t len;
    const char *s = frame_get_bytes(r, (uint32_t)size - 1, &len);
    if (len)
        memcpy(out, s, len);
    out[len] = 0;
}

static void get_cache(struct frame_reader *r, struct engine_usage *u)
{
    u->cached_from_ram = (int32_t)frame_get_u32(r);
    u->cached_from_disk = (int32_t)frame_get_u32(r);
    u->cache_bytes = frame_get_u64(r);
    u->cache_ms = frame_get_f64(r);
    get_text(r, u->cache_miss, sizeof u->cache_miss);
}

static void get_done(struct frame_reader *r, struct engine_event *ev, struct event_box *box)
{
    struct engine_usage *u = &ev->usage;
    uint32_t finish = frame_get_u32(r);
    r->failed |= finish >= ENGINE_FINISH__N;
    ev->finish = (enum engine_finish)finish;
    get_text(r, box->stop_string, sizeof box->stop_string);
    ev->stop_string = finish == ENGINE_STOP_STRING ? box->stop_string : NULL;
    u->prompt_tokens = (int32_t)frame_get_u32(r);
    u->cached_tokens = (int32_t)frame_get_u32(r);
    u->completion_tokens = (int32_t)frame_get_u32(r);
    get_cache(r, u);
    u->queue_ms = frame_get_f64(r);
    u->prefill_ms = frame_get_f64(r);
    u->decode_ms = frame_get_f64(r);
    u->prefill_tokens_per_s = frame_get_f64(r);
    u->decode_tokens_per_s = frame_get_f64(r);
    for (int i = 0; i < ENGINE_EXPERT__N; i++)
        u->experts[i] = frame_get_f64(r);
    u->memory.resident = frame_get_u64(r);
    u->memory.anonymous = frame_get_u64(r);
    u->memory.mapped = frame_get_u64(r);
    u->memory.locked = frame_get_u64(r);
    u->memory.device = frame_get_u64(r);
    u->reduced_top_k = (int32_t)frame_get_u32(r);
    u->trained_top_k = (int32_t)frame_get_u32(r);
    message_get_speculation(r, &u->speculation);
}

bool message_get_event(const struct frame *f, struct engine_event *ev, struct event_box *box,
                       struct err *e)
{
    struct frame_reader r;
    *ev = (struct engine_event){0};
    frame_reader_init(&r, f);
    ev->job = frame_get_u64(&r);
    switch (f->type) {
    case FRAME_ACCEPTED:
        ev->type = ENGINE_ACCEPTED;
        ev->queue_position = (int32_t)frame_get_u32(&r);
        break;
    case FRAME_PROGRESS:
        ev->type = ENGINE_PROGRESS;
        ev->done = (int32_t)frame_get_u32(&r);
        ev->total = (int32_t)frame_get_u32(&r);
        ev->cached = (int32_t)frame_get_u32(&r);
        break;
    case FRAME_PROMPT_SCORES:
    case FRAME_TOKENS:
        ev->type = f->type == FRAME_TOKENS ? ENGINE_TOKENS : ENGINE_PROMPT_SCORES;
        if (ev->type == ENGINE_PROMPT_SCORES)
            ev->done = (int32_t)frame_get_u32(&r);
        if (!get_tokens(&r, ev, box, e))
            return false;
        break;
    case FRAME_VECTORS:
        ev->type = ENGINE_VECTORS;
        if (!message_get_vectors(&r, ev, box, e))
            return false;
        break;
    case FRAME_DONE:
        ev->type = ENGINE_DONE;
        get_done(&r, ev, box);
        break;
    case FRAME_ERROR: {
        ev->type = ENGINE_FAILED;
        uint32_t code = frame_get_u32(&r);
        r.failed |= code == ERR_NONE || code >= ERR__N;
        ev->error.code = (enum err_code)code;
        get_text(&r, ev->error.field, sizeof ev->error.field);
        get_text(&r, ev->error.text, sizeof ev->error.text);
        break;
    }
    default:
        r.failed = true;
    }
    if (r.failed || r.at != r.end)
        return err_set(e, ERR_FORMAT, "malformed event frame of type %d", (int)f->type);
    return true;
}

void event_box_fini(struct event_box *box)
{
    free(box->tokens);
    free(box->values);
    *box = (struct event_box){0};
}
