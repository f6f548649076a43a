/* A job's events as encoded bytes, written by the loop thread and read by the I/O thread for any
 * number of connections, each at its own position. Nothing is copied per connection. A log that is
 * not kept drops what its only reader has sent; a kept one (detached jobs) stays whole. Both are
 * bounded. One mutex inside. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"

struct event_log {
    pthread_mutex_t lock; /* guards all below */
    struct buf data;
    uint64_t base; /* position of data[0] in the stream */
    size_t limit;
    bool keep, closed;
};

void event_log_init(struct event_log *l, size_t limit, bool keep);
void event_log_fini(struct event_log *l);
void event_log_allow(struct event_log *l, size_t limit); /* at least so much, from now on */
/* False when more than `limit` bytes would be held (a reader that does not read, an answer without
 * end) or memory ran out: nothing was appended. `last`: allowed beyond the limit; the stream ends
 * after it. */
bool event_log_append(struct event_log *l, const struct buf *frames, bool last);
/* Copies up to `size` bytes from position `from`; *end: nothing can come after them. */
size_t event_log_read(struct event_log *l, uint64_t from, char *out, size_t size, bool *end);
/* Everything before this position was sent; ignored by a kept log. */
void event_log_forget(struct event_log *l, uint64_t before);
size_t event_log_bytes(struct event_log *l);
