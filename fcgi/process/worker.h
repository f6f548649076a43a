/* What every request of this process shares. Filled before the children are forked and constant
 * afterwards; what is behind `shared` are atomics in memory that all pools map. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/text/text_model.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/side_model.h"

struct http_hooks;
struct setting_cache;

struct worker {
    enum worker_pool pool;
    const char *state_dir, *run_dir; /* names inside them: fcgi/process/state.h */
    const char *engine_run;          /* folder of the engine's socket and status page */
    const char *relay_socket;        /* fcgi/relay/relay.h */
    const char *engine_socket, *status_path, *db_path, *cache_dir, *model_path;
    const char *log_path; /* engine/base/log_ring.h */
    const struct text_model *text;
    struct side_model side[SIDE_MODELS]; /* the engines beside it */
    const char *cors_origins;            /* cors.h; NULL: none */
    const char *audit_log;               /* recorder/audit_ship.h; NULL or "": not shipped */
    bool network;                        /* this pool connects to other machines: worker_walls.h */
    bool without_landlock;               /* attachments/file_reading.h; worker_walls.h */
    bool without_seccomp;                /* worker_walls.h */
    char model_id[128];                  /* what /v1/models lists and requests name */
    int64_t model_created;               /* Unix seconds: the model's config file */
    int waits_most;                      /* requests that may wait for one of these to be loaded */
    struct worker *locals;          /* [n_locals] the same for each further model: local_model.h */
    int n_locals;                   /* -1: nobody runs engines for them */
    const struct worker *first;     /* of one of these: whose it is; else NULL */
    int64_t local_id;               /* of one of these: the row; else 0 */
    struct shared *shared;          /* never NULL */
    struct setting_cache *settings; /* server_settings.h; locks itself */
    const struct http_hooks *hooks; /* http/route.h: what routes ask of the rooms above theirs */
};

/* Detached jobs that the relay carries have keys that begin with this, so that everyone knows whom
 * to ask for them. */
#define WORKER_RELAYED_KEY "up:"
/* A CANCEL by this and a user's number ends all that the relay does for the user; it has no reply,
 * and no job has such a key. */
#define WORKER_USER_KEY "user:"
#define WORKER_SOCKET_BYTES 4096
/* Who has the detached job of this key; into `out`. */
const char *worker_job_socket(const struct worker *w, const char *key,
                              char out[WORKER_SOCKET_BYTES]);
bool worker_job_relayed(const char *key);
