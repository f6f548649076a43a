/* Servers of others that answer for us, and which models each of them answers for. Rules as in
 * sql/core/store.h. What an upstream wants from us as a key is sealed by the file beside the
 * database (factor_key.h), bound to the upstream's id, and read by the process that sends it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct store;

#define STORE_UPSTREAMS_MAX 256
#define STORE_UPSTREAM_KEY_BYTES 4096
#define STORE_UPSTREAM_FIRST_BYTE_MS 300000
#define STORE_UPSTREAM_IDLE_MS 120000

/* A model that an upstream answers for; one that nobody is called is made. */
struct store_route_wish {
    const char *model; /* its name or an alias */
    const char *remote;
    int64_t priority, weight;
};
struct store_route_wishes {
    const struct store_route_wish *at;
    int n;
};

struct store_upstream {
    int64_t id;
    const char *name;
    const char *dialect; /* "openai", "anthropic", "ollama" */
    const char *url;     /* without a slash at its end */
    bool has_key, drained;
    int64_t max_streams; /* at once; 0: no limit */
    int64_t first_byte_ms, idle_ms;
    int64_t created_at;
    const struct store_route_wishes *models; /* of store_upstream_add: what it answers for */
};
/* key: NULL or "": none. All of it is written, or nothing. ERR_CONFLICT: the name is taken;
 * ERR_LIMIT: too many. */
bool store_upstream_add(struct store *s, const struct store_upstream *u, const char *key,
                        int64_t *id, struct err *e);
struct store_upstream_change { /* -1 and NULL leave what is there */
    int64_t drained, max_streams, first_byte_ms, idle_ms;
    const char *key;                         /* "": none from now on */
    const struct store_route_wishes *models; /* these and no others from now on */
};
bool store_upstream_change(struct store *s, int64_t id, const struct store_upstream_change *c,
                           struct err *e);
/* These too, all of them or none; one that it answers for already is changed. */
bool store_upstream_serve(struct store *s, int64_t id, const struct store_route_wishes *more,
                          struct err *e);
bool store_upstream_remove(struct store *s, int64_t id, struct err *e);
typedef bool (*store_upstream_fn)(void *context, const struct store_upstream *u);
/* By name. Strings live until the callback returns. */
bool store_upstream_list(struct store *s, store_upstream_fn fn, void *context, struct err *e);
/* The key in clear, of STORE_UPSTREAM_KEY_BYTES + 1 at most; "" where it has none. ERR_FORMAT: it
 * does not open (the file factor.key is another one). */
bool store_upstream_key(struct store *s, int64_t id, char key[STORE_UPSTREAM_KEY_BYTES + 1],
                        struct err *e);

struct store_model_route {
    int64_t model_id, upstream_id;
    const char *remote;           /* the model's name there */
    int64_t priority;             /* 0 to 100: the lowest that is well answers */
    int64_t weight;               /* 1 to 1000: the share among equals */
    const char *model, *upstream; /* names; filled in by the list only */
};
bool store_model_route_set(struct store *s, const struct store_model_route *r, struct err *e);
bool store_model_route_remove(struct store *s, int64_t model_id, int64_t upstream_id,
                              struct err *e);
typedef bool (*store_model_route_fn)(void *context, const struct store_model_route *r);
bool store_model_route_list(struct store *s, store_model_route_fn fn, void *context, struct err *e);
/* A number that differs after another connection has changed anything in the database. */
bool store_upstreams_version(struct store *s, int64_t *version, struct err *e);
