/* Names inside the state folder. One place, so that the server's programs and the operator's
 * commands agree. */
#pragma once

#define STATE_OF_SERVICE "/var/lib/sluice" /* the folder of the systemd units */

#define STATE_DATABASE "sluice.db" /* sql/core/store.h */
#define STATE_ENGINE_SOCKET "engine.sock"
#define STATE_EMBED_SOCKET "embed.sock" /* the engine that makes embeddings, and its page */
#define STATE_EMBED_STATUS "embed.status"
#define STATE_SCORE_SOCKET "score.sock" /* the engine that scores documents, and its page */
#define STATE_SCORE_STATUS "score.status"
#define STATE_STATUS "status" /* engine/wire/status.h */
#define STATE_ENGINE "engine" /* folder of an engine of another user: socket, status, cache */
#define STATE_CACHE "cache"   /* folder: vocabularies, pipelines */
#define STATE_SHARED                                                                               \
    "workers" /* fcgi/process/shared.h: counters and scoreboards of the worker processes */
#define STATE_LOG "log"            /* engine/base/log_ring.h: the newest log lines */
#define STATE_MODELS "models.json" /* fcgi/admin/local_models.h */
#define STATE_MODELS_REQUEST "models.request"
#define STATE_LOCAL_MODELS "local-models.json" /* local_model.h: the models beside the first */
#define STATE_SEARCH "search.json"             /* what a search of the admin's page found so far */
#define STATE_SEARCH_REQUEST "search.request"  /* {"query", "limit"}, for `sluice up` */
#define STATE_PULL "pull.json"                 /* how far a pull of the admin's page is */
#define STATE_MODEL                                                                                \
    "model" /* path of the model that `sluice up` runs; workers read it at SIGHUP                  \
             */
#define STATE_HISTORY "history" /* fcgi/status/history.h: figures over time, for charts */
#define STATE_RECORD_SOCKET                                                                        \
    "record.sock" /* datagrams to the recorder: the id of a new answer, in decimal */
#define STATE_TOOLS_SOCKET "tools.sock"  /* toolhost/toolhost.h: tool servers that are programs */
#define STATE_RELAY_SOCKET "relay.sock"  /* fcgi/relay/relay.h: answers of other servers */
#define STATE_UPSTREAMS "upstreams.json" /* how these are, as the relay sees them */
#define STATE_STATUS_SOCKET                                                                        \
    "status.sock" /* the short pool's second socket: health and figures, by threads of their own   \
                   */
#define STATE_EXPORT_LOCK                                                                          \
    "export.lock"                       /* a byte locked per user whose history is being exported  \
                                         */
#define STATE_UP_LOCK "up.lock"         /* flock: at most one `sluice up` */
#define STATE_RECORD_LOCK "record.lock" /* flock: at most one recorder */
#define STATE_IMPORTS "imports"         /* folder: locks by user id, one import at a time */
