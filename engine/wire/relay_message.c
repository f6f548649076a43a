/* Encodes and decodes what is asked of the relay: a part of message.h. */
#include <string.h>

#include "engine/wire/message.h"
#include "engine/wire/message_parts.h"

#define MAX_REQUEST ((uint32_t)48 << 20)
#define DETACHED 1u
#define LOGPROBS 2u
#define TEXT 4u

bool message_put_relay(struct buf *b, const struct engine_relay *p, struct err *e)
{
    if (p->n_request > MAX_REQUEST)
        return err_set(e, ERR_LIMIT, "the request has %zu bytes, at most %u are relayed",
                       p->n_request, MAX_REQUEST);
    size_t start = frame_begin(b, FRAME_RELAY);
    frame_put_u64(b, (uint64_t)p->model);
    frame_put_u64(b, (uint64_t)p->upstream);
    frame_put_u64(b, p->user);
    frame_put_u64(b, p->affinity);
    frame_put_u32(b, (p->detached ? DETACHED : 0) | (p->logprobs ? LOGPROBS : 0) |
                         (p->text ? TEXT : 0));
    message_put_string(b, p->key);
    message_put_string(b, p->request_id);
    message_put_string(b, p->via);
    frame_put_u64(b, (uint64_t)p->most_tokens);
    frame_put_bytes(b, p->request, (uint32_t)p->n_request);
    frame_end(b, start);
    return !b->failed || err_set(e, ERR_NOMEM, "no memory for a request");
}

bool message_get_relay(const struct frame *f, struct engine_relay *p, struct err *e)
{
    struct frame_reader r;
    uint32_t n = 0;
    *p = (struct engine_relay){0};
    frame_reader_init(&r, f);
    p->model = (int64_t)frame_get_u64(&r);
    p->upstream = (int64_t)frame_get_u64(&r);
    p->user = frame_get_u64(&r);
    p->affinity = frame_get_u64(&r);
    const uint32_t flags = frame_get_u32(&r);
    message_get_string(&r, p->key, sizeof p->key);
    message_get_string(&r, p->request_id, sizeof p->request_id);
    message_get_string(&r, p->via, sizeof p->via);
    p->most_tokens = (int64_t)frame_get_u64(&r);
    p->request = frame_get_bytes(&r, MAX_REQUEST, &n);
    p->n_request = n;
    p->detached = flags & DETACHED;
    p->logprobs = flags & LOGPROBS;
    p->text = flags & TEXT;
    const bool object = n > 2 && p->request[0] == '{' && p->request[n - 1] == '}';
    if (r.failed || r.at != r.end || flags > (DETACHED | LOGPROBS | TEXT) || p->model <= 0 ||
        p->most_tokens < 0 || !object || p->detached == !p->key[0])
        return err_set(e, ERR_FORMAT, "malformed relay frame");
    return true;
}
