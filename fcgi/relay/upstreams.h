/* The upstreams as the relay knows them: what the database says of them, and how they are. Decides
 * which of them answers. Owner: the relay's thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/busy_poll.h"
#include "engine/base/err.h"
#include "fcgi/relay/relay_dialect.h"
#include "sql/models/store_upstreams.h"

struct store;

#define UPSTREAM_FAILURES 3     /* in a row open the breaker; a refused connection does alone */
#define UPSTREAM_OPEN_MS 1000.0 /* the first time; twice as long each time, */
#define UPSTREAM_OPEN_MAX_MS 30000.0 /* at most */
#define UPSTREAM_PROBE_MS 15000.0    /* one that is well is asked this often */
#define UPSTREAM_BUSY_MAX_MS 30000.0

struct upstream {
    int64_t id;
    char name[65], url[513];
    const struct relay_dialect *dialect;
    char *key; /* or NULL */
    bool drained;
    bool gone; /* removed from the database; freed when its last answer ends */
    int64_t max_streams, first_byte_ms, idle_ms;

    int in_flight;
    int failures;       /* of answers, in a row; those that nobody listened to do not count */
    int probe_failures; /* in a row */
    double open_until;  /* clock_ms; 0: the breaker is closed */
    double open_ms;     /* how long it was opened the last time */
    bool trying;        /* a request or a probe finds out whether it is well again */
    double busy_until;  /* it said 429 */
    double next_probe;  /* clock_ms */
    bool probing;
    int64_t probed_at; /* Unix ms; 0: never */
    bool probe_ok;
    char last_error[200];
    int64_t failed_at; /* Unix ms */
    uint64_t requests, errors, prompt_tokens, completion_tokens;
    double first_ms;              /* mean time to the first byte, the newest most */
    struct busy_poll first;       /* the same as it was of late */
    unsigned turn;                /* raised when address, key or dialect may be others */
    struct relay_handle *handles; /* that serve again */
    int n_handles;
    struct upstream *next;
};

struct upstream_route {
    int64_t model;
    struct upstream *to;
    char remote[257];
    int64_t priority, weight;
};

struct upstreams { /* zeroed = empty */
    struct upstream *first;
    struct upstream_route *routes;
    int n_routes, cap_routes;
    int64_t version;
    bool changed; /* since the status was written */
    bool turned;  /* and one of them is well or ill since: that is told soon */
};

/* Reads the database where it has changed. False: *e, and all stays as it was. */
bool upstreams_load(struct upstreams *all, struct store *s, bool anyhow, struct err *e);
void upstreams_fini(struct upstreams *all);

struct upstream_wish {
    int64_t model;
    int64_t only;         /* an id: this one, also where it is drained; 0: any */
    uint64_t affinity;    /* 0: none */
    const int64_t *tried; /* [n_tried] ids of those that failed this job */
    int n_tried;
    double now;
};
enum upstream_choice {
    UPSTREAM_CHOSEN,
    UPSTREAM_FULL, /* there would be one, but it has as many streams as it may have, or is busy */
    UPSTREAM_DOWN, /* breakers are open */
    UPSTREAM_NONE, /* nobody answers for this model */
};
/* The lowest priority that has one that is well and has room. Among its upstreams: the one that the
 * affinity names, unless it has over a quarter more than its share of what runs; without affinity
 * the one that has least to do for its weight. */
enum upstream_choice upstreams_choose(struct upstreams *all, const struct upstream_wish *wish,
                                      struct upstream_route **out);

/* What became of a request. */
void upstream_succeeded(struct upstreams *all, struct upstream *u);
/* Its trial has begun to answer: others need not wait for its end. One failure opens it again. */
void upstream_answers(struct upstreams *all, struct upstream *u);
/* down: nobody listens, so that there is no need to count. */
void upstream_failed(struct upstreams *all, struct upstream *u, bool down, const char *why);
/* A probe asks for a list, which says little of answers: one that is well (why NULL) closes a
 * breaker that connections or probes opened. Where answers failed it permits one more trial. */
void upstream_probed(struct upstreams *all, struct upstream *u, bool down, const char *why);
void upstream_is_busy(struct upstreams *all, struct upstream *u, double ms);
void upstream_release(struct upstreams *all, struct upstream *u); /* one stream less */
const char *upstream_state(const struct upstream *u, double now); /* "ok", "open", "trying",
                                                                     "drained" */
/* What the admin's page, /metrics and the command show, as a JSON array. */
void upstreams_put_status(struct buf *out, const struct upstreams *all);
