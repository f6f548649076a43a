/* What every request of this process shares. Filled before the children are forked and constant afterwards; the
 * counters inside `metrics` are atomics in shared memory. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/text/text_model.h"
#include "fcgi/route.h"

struct metrics;
struct scoreboard;

struct worker {
    enum route_pool pool;
    const char *engine_socket, *status_path, *db_path, *cache_dir, *model_path;
    const struct text_model *text;
    char model_id[128];     /* what /v1/models lists and requests name */
    int64_t model_created;  /* Unix seconds: the model's config file */
    struct metrics *metrics; /* never NULL */
    bool secure_cookie;      /* served by TLS: the cookie is marked Secure */
};
