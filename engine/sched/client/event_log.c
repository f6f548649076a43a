/* Stores a job's encoded events in one buffer that the loop thread appends to and the I/O thread
 * reads from. */
#include "engine/sched/client/event_log.h"

#include <string.h>

#define FORGET_STEP                                                                                \
    ((size_t)64                                                                                    \
     << 10) /* dropping the front moves the rest down, so it is not done for every frame */

void event_log_init(struct event_log *l, size_t limit, bool keep)
{
    *l = (struct event_log){.limit = limit, .keep = keep};
    pthread_mutex_init(&l->lock, NULL);
}

void event_log_fini(struct event_log *l)
{
    buf_fini(&l->data);
    pthread_mutex_destroy(&l->lock);
}

void event_log_allow(struct event_log *l, size_t limit)
{
    pthread_mutex_lock(&l->lock);
    if (limit > l->limit)
        l->limit = limit;
    pthread_mutex_unlock(&l->lock);
}

bool event_log_append(struct event_log *l, const struct buf *frames, bool last)
{
    bool ok = !frames->failed;
    pthread_mutex_lock(&l->lock);
    if (ok && !last && l->data.len + frames->len > l->limit)
        ok = false;
    if (ok && frames->len && !buf_append(&l->data, frames->data, frames->len)) {
        l->data.failed = false; /* earlier data is intact; only this append failed */
        ok = false;
    }
    if (last)
        l->closed = true;
    pthread_mutex_unlock(&l->lock);
    return ok;
}

size_t event_log_read(struct event_log *l, uint64_t from, char *out, size_t size, bool *end)
{
    pthread_mutex_lock(&l->lock);
    size_t at = from > l->base ? (size_t)(from - l->base) : 0;
    size_t n = at < l->data.len ? l->data.len - at : 0;
    if (n > size)
        n = size;
    if (n)
        memcpy(out, l->data.data + at, n);
    *end = l->closed && at + n >= l->data.len;
    pthread_mutex_unlock(&l->lock);
    return n;
}

void event_log_forget(struct event_log *l, uint64_t before)
{
    pthread_mutex_lock(&l->lock);
    size_t n = before > l->base ? (size_t)(before - l->base) : 0;
    if (!l->keep && (n == l->data.len || n >= FORGET_STEP)) {
        buf_consume(&l->data, n);
        l->base += n;
    }
    pthread_mutex_unlock(&l->lock);
}

size_t event_log_bytes(struct event_log *l)
{
    pthread_mutex_lock(&l->lock);
    size_t n = l->data.len;
    pthread_mutex_unlock(&l->lock);
    return n;
}
