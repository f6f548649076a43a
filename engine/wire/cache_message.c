/* Encodes and decodes what cache_message.h lists. */
#include "engine/wire/cache_message.h"

#include <math.h>
#include <string.h>

static bool malformed(struct err *e, const struct frame *f)
{
    return err_set(e, ERR_FORMAT, "malformed prompt cache frame of type %d", (int)f->type);
}

static bool at_end(const struct frame_reader *r)
{
    return !r->failed && r->at == r->end;
}

static void put_key(struct buf *b, const struct prompt_key *k)
{
    buf_append(b, k->bytes, sizeof k->bytes);
}

/* A key has no length in front of it. */
static void get_key(struct frame_reader *r, struct prompt_key *k)
{
    if (r->failed || (size_t)(r->end - r->at) < sizeof k->bytes) {
        r->failed = true;
        return;
    }
    memcpy(k->bytes, r->at, sizeof k->bytes);
    r->at += sizeof k->bytes;
}

static void put_place(struct buf *b, const struct stored_place *p)
{
    frame_put_u32(b, p->segment);
    frame_put_u32(b, p->bytes);
    frame_put_u64(b, p->offset);
}

static void get_place(struct frame_reader *r, struct stored_place *p)
{
    p->segment = frame_get_u32(r);
    p->bytes = frame_get_u32(r);
    p->offset = frame_get_u64(r);
}

void cache_message_put_refs(struct buf *b, const struct stored_ref *refs, int32_t n)
{
    frame_put_u32(b, (uint32_t)n);
    for (int32_t i = 0; i < n; i++) {
        put_key(b, &refs[i].key);
        put_place(b, &refs[i].place);
    }
}

bool cache_message_get_refs(struct frame_reader *r, const struct stored_ref **refs, int32_t *n,
                            struct arena *a)
{
    uint32_t count = frame_get_u32(r);
    *refs = NULL;
    *n = 0;
    if (count > (uint32_t)CACHE_MESSAGE_MAX_REFS ||
        (size_t)(r->end - r->at) < (size_t)count * CACHE_MESSAGE_REF_BYTES)
        r->failed = true;
    if (r->failed || !count)
        return !r->failed;
    struct stored_ref *list = arena_alloc(a, count * sizeof *list);
    if (!list)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        get_key(r, &list[i].key);
        get_place(r, &list[i].place);
    }
    *refs = list;
    *n = (int32_t)count;
    return true;
}

void cache_message_put_empty(struct buf *b, enum frame_type type)
{
    frame_end(b, frame_begin(b, type));
}

void cache_message_put_list(struct buf *b, enum frame_type type, const struct stored_ref *refs,
                            int32_t n)
{
    size_t start = frame_begin(b, type);
    cache_message_put_refs(b, refs, n);
    frame_end(b, start);
}

bool cache_message_get_list(const struct frame *f, const struct stored_ref **refs, int32_t *n,
                            struct arena *a, struct err *e)
{
    struct frame_reader r;
    frame_reader_init(&r, f);
    if (!cache_message_get_refs(&r, refs, n, a) && !r.failed)
        return err_set(e, ERR_NOMEM, "no memory for a list of stored blocks");
    return at_end(&r) || malformed(e, f);
}

void cache_message_put_list_of(struct buf *b, int64_t model, const struct stored_ref *refs,
                               int32_t n)
{
    size_t start = frame_begin(b, FRAME_CACHE_FORGET_OF);
    frame_put_u64(b, (uint64_t)model);
    cache_message_put_refs(b, refs, n);
    frame_end(b, start);
}

bool cache_message_get_list_of(const struct frame *f, int64_t *model,
                               const struct stored_ref **refs, int32_t *n, struct arena *a,
                               struct err *e)
{
    struct frame_reader r;
    frame_reader_init(&r, f);
    *model = (int64_t)frame_get_u64(&r);
    if (*model < 1)
        r.failed = true;
    if (!cache_message_get_refs(&r, refs, n, a) && !r.failed)
        return err_set(e, ERR_NOMEM, "no memory for a list of stored blocks");
    return at_end(&r) || malformed(e, f);
}

void cache_message_put_event(struct buf *b, uint64_t number, const struct cache_event *ev)
{
    size_t start = frame_begin(b, FRAME_CACHE_EVENT);
    frame_put_u64(b, number);
    frame_put_u32(b, (uint32_t)ev->type);
    put_key(b, &ev->key);
    put_place(b, &ev->place);
    if (ev->type == CACHE_FORGOTTEN)
        frame_put_u64(b, (uint64_t)ev->model);
    if (ev->type == CACHE_STORED) {
        put_key(b, &ev->parent);
        frame_put_u32(b, (uint32_t)ev->end);
        frame_put_u32(b, ev->state_bytes);
        frame_put_u64(b, ev->identity);
        frame_put_u64(b, ev->user);
        frame_put_bytes(b, ev->owner, (uint32_t)strlen(ev->owner));
        frame_put_u64(b, (uint64_t)ev->keep_seconds);
        frame_put_u64(b, (uint64_t)ev->forgets_seen);
        frame_put_f64(b, ev->compute_ms);
    }
    frame_end(b, start);
}

static void get_stored(struct frame_reader *r, struct cache_event *ev)
{
    uint32_t len;
    get_key(r, &ev->parent);
    ev->end = (int32_t)frame_get_u32(r);
    ev->state_bytes = frame_get_u32(r);
    ev->identity = frame_get_u64(r);
    ev->user = frame_get_u64(r);
    const char *owner = frame_get_bytes(r, sizeof ev->owner - 1, &len);
    if (len)
        memcpy(ev->owner, owner, len);
    ev->keep_seconds = (int64_t)frame_get_u64(r);
    ev->forgets_seen = (int64_t)frame_get_u64(r);
    ev->compute_ms = frame_get_f64(r);
    if (ev->end < ENGINE_STORED_TOKENS || !isfinite(ev->compute_ms) || strlen(ev->owner) != len)
        r->failed = true;
}

bool cache_message_get_event(const struct frame *f, uint64_t *number, struct cache_event *ev,
                             struct err *e)
{
    struct frame_reader r;
    *ev = (struct cache_event){0};
    frame_reader_init(&r, f);
    *number = frame_get_u64(&r);
    uint32_t type = frame_get_u32(&r);
    ev->type = (enum cache_event_type)type;
    get_key(&r, &ev->key);
    get_place(&r, &ev->place);
    if (type == CACHE_FORGOTTEN)
        ev->model = (int64_t)frame_get_u64(&r);
    if (type == CACHE_STORED)
        get_stored(&r, ev);
    if (f->type != FRAME_CACHE_EVENT || type > CACHE_RECONCILED || !at_end(&r))
        return malformed(e, f);
    return true;
}

void cache_message_put_acknowledge(struct buf *b, uint64_t number)
{
    size_t start = frame_begin(b, FRAME_CACHE_ACKNOWLEDGE);
    frame_put_u64(b, number);
    frame_end(b, start);
}

bool cache_message_get_acknowledge(const struct frame *f, uint64_t *number, struct err *e)
{
    struct frame_reader r;
    frame_reader_init(&r, f);
    *number = frame_get_u64(&r);
    return at_end(&r) || malformed(e, f);
}
