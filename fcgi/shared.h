/* Memory that all worker processes of all pools map: counters for /metrics, the pools' scoreboards, login throttling.
 * One file in the state folder, made anew when its layout differs. Every field that changes is a C11 atomic with
 * relaxed order: a reader may see one counter a moment before another, never a torn one. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/base/err.h"
#include "fcgi/route.h"

#define SHARED_ROUTES 96 /* rows for routes; the last one counts requests without a route */
#define SHARED_STATUSES 24
#define SHARED_BUCKETS 16
#define SHARED_CHILDREN 512 /* processes of one pool */
#define SHARED_THROTTLES 1024

struct shared_histogram { /* count[i]: values <= shared_bounds[i] (in seconds), not cumulative; the last one: above */
    _Atomic uint64_t count[SHARED_BUCKETS];
    _Atomic uint64_t sum_ns;
};

enum child_state { CHILD_NONE, CHILD_STARTING, CHILD_IDLE, CHILD_BUSY, CHILD_LEAVING };

enum stream_state {
    STREAM_NONE,
    STREAM_OPEN,    /* OpenAI's stream is open on the connection, at the end of an event */
    STREAM_WRITING, /* and an event may be half written */
};

struct shared_child {
    _Atomic int32_t pid;
    _Atomic int32_t state;      /* enum child_state; a threaded child stays IDLE */
    _Atomic int64_t since_ms;   /* Unix time of the last change */
    _Atomic uint64_t requests;
    _Atomic int32_t stream; /* enum stream_state: see guard.h */
};

struct shared_pool {
    _Atomic int32_t master_pid;
    _Atomic uint64_t started, crashed, killed; /* children */
    struct shared_child child[SHARED_CHILDREN];
};

struct shared_throttle {
    _Atomic uint64_t key; /* hash of a name or an address; 0: free */
    _Atomic uint32_t failures;
    _Atomic int64_t last_ms;
};

struct shared {
    uint32_t magic, version;
    uint64_t size;
    _Atomic uint64_t requests[SHARED_ROUTES][SHARED_STATUSES];
    struct shared_histogram overhead, duration_short, duration_stream, first_byte;
    _Atomic uint64_t client_gone, engine_lost, auth_failed, login_throttled, bytes_out;
    struct shared_pool pool[POOL__N];
    struct shared_throttle throttle[SHARED_THROTTLES];
};

/* Maps the file read-write, making it when it is missing or of another layout. */
struct shared *shared_open(const char *path, struct err *e);
void shared_close(struct shared **s);

extern const double shared_bounds[SHARED_BUCKETS - 1];
void shared_observe(struct shared_histogram *h, uint64_t ns);
/* route: index of route_find, -1: none. */
void shared_count_request(struct shared *s, int route, int status);
int shared_status_at(int column); /* HTTP status of a column of `requests` */

/* Failed logins: how many milliseconds this key (name or address) must wait; 0: may try. */
int64_t shared_throttle_wait(struct shared *s, uint64_t key, int free_failures);
void shared_throttle_fail(struct shared *s, uint64_t key);
void shared_throttle_clear(struct shared *s, uint64_t key);
