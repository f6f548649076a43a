/* One HTTP request inside a worker. It lives from accept to the end of the reply; everything that
 * hangs on it is in its arena or is freed by request_end. One thread owns it. Only fcgi/ knows
 * FastCGI, and only request.c, reply*.c and sse.c touch the FCGX handle. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "fcgi/http/identity.h"
#include "fcgi/http/ignored.h"
#include "fcgi/http/route.h"

struct FCGX_Request;
struct child_params;
struct engine_job;
struct shared_child;
struct store;
struct store_model;
struct worker;

#define REQUEST_ARENA_BYTES ((size_t)64 << 20) /* over it: 413 */
#define REQUEST_MAX_PARAMS 4
#define REQUEST_ID_SIZE 48

struct request_pair {
    const char *name, *value;
};

struct request {
    struct arena *arena;
    const struct worker *worker; /* this process: paths, text model, counters; of the model that the
                                    request is for (process/local_model.h) */
    struct store *store;         /* this thread's connection to SQLite */
    struct FCGX_Request *fcgx;
    struct shared_child
        *slot; /* this process's row when it serves one request at a time; else NULL */
    const struct child_params *child; /* with slot: the process itself */
    struct engine_job *relay_kept;    /* the thread's connection to the relay: engine_relay */
    char id[REQUEST_ID_SIZE];         /* "req_..." */

    enum http_method method;
    const char *path;  /* as sent, without the query; route_find decodes its segments */
    const char *query; /* raw, "" when there is none */
    const struct route *route;
    int route_index;
    bool authorise_only; /* nginx asks whether the request may bring a large body; it has none */
    struct request_pair params[REQUEST_MAX_PARAMS]; /* {name} of the route's path */
    int n_params;
    const char *body; /* NUL-terminated, in the arena; NULL: none was read */
    size_t body_len;
    cJSON *json;                     /* parsed by request_json; freed by request_end */
    const struct store_model *model; /* another server's, that the request asks for; NULL: the one
                                        that runs here (inference/model_name.h) */
    const struct store_model *local; /* the row of a model of this machine beside the first; NULL:
                                        the first, or another server's */
    struct identity who;             /* who.user_id 0: nobody */
    int64_t forgets_seen; /* of routes that submit jobs: engine_job_params.cache_forgets_seen, taken
                              before any row was read for it */
    bool strict_parameters; /* what would be named as ignored is refused: the server's setting, or
                               the key's */

    /* What the error reply says beyond the table of reply.c; set before returning false. */
    struct {
        int status;          /* 0: by err_code */
        const char *details; /* JSON, for Anthropic's form: error.details; NULL: null */
        const char *code;    /* "context_length_exceeded"; NULL: by err_code */
        int retry_after_s;
        int32_t prompt_tokens, context_tokens; /* of a prompt that is too long, for each dialect's
                                                  own words; 0: not so */
    } error_override;

    struct ignored ignored; /* what the answer names as ignored */

    /* The reply */
    struct buf headers; /* reply_header's lines, until they are sent */
    bool handed_over;   /* the master has the connection: stream_abort.h */
    bool replied;       /* headers were sent: an error can no longer change the status */
    bool counted;       /* by route_counts */
    bool client_gone;
    int status;
    uint64_t bytes_out;
    uint64_t begin_ns, first_byte_ns,
        engine_ns; /* monotonic; the last: time spent waiting for the engine */
    int32_t prompt_tokens, completion_tokens;
    uint64_t job;

    unsigned work; /* work.h: bit per enum work_kind that it does */
    int64_t work_owner;
};

/* Once per thread; the struct is then used for one request after the other. */
bool request_init(struct request *r, struct FCGX_Request *fcgx, const struct worker *w);
void request_fini(struct request *r);
/* After FCGX_Accept_r: takes method, path and query, makes the id. ERR_INPUT: a path that can't be
 * one. */
bool request_begin(struct request *r, struct store *store, struct err *e);
void request_end(struct request *r); /* finishes FastCGI, frees what hung on the request */

/* Reads the body up to the route's limit (413, 411, 400 are set as hints). */
bool request_read_body(struct request *r, struct err *e);
/* For a route with doc.upload: its handler takes the body piece by piece. begin: the length that
 * the client says, from 1 to `limit` bytes (else 400, 411 or 413). read: up to `size` bytes, 0 when
 * the client sent no more. */
bool request_body_begin(struct request *r, size_t limit, size_t *len, struct err *e);
size_t request_body_read(struct request *r, void *to, size_t size);
/* The body as a JSON object: content type checked (415), parsed once, owned by the request. NULL:
 * *e. */
cJSON *request_json(struct request *r, struct err *e);

#define REQUEST_MAX_JSON_VALUES ((size_t)1 << 20)

/* NULL when absent. Values live as long as the request. */
const char *request_param(const struct request *r, const char *name); /* of the path */
const char *request_query(struct request *r, const char *name); /* of the query, percent-decoded */
/* All of that name, in their order, the first `max` of them in `out`; gives how many there are. */
int request_query_all(struct request *r, const char *name, const char **out, int max);
const char *request_header(const struct request *r, const char *name); /* "X-CSRF-Token" */
const char *request_cookie(struct request *r, const char *name);
/* As request_query_all: a browser sends several of one name when they were set for several paths.
 */
int request_cookie_all(struct request *r, const char *name, const char **out, int max);
/* Percent-decoded copy in the arena; NULL: a bad escape, %00, or no memory. */
char *request_decode(struct request *r, const char *text, size_t len, bool plus_is_space);
bool request_secure(const struct request *r); /* came by https */
const char *
request_server(const struct request *r); /* the web server in front: "nginx/1.22.1", or NULL */
const char *request_remote(const struct request *r); /* client's address, "" when unknown */
bool request_query_int(struct request *r, const char *name, int64_t min, int64_t max, int64_t *out,
                       struct err *e);

/* Has the client closed its connection? Costs one poll; nginx never tells in any other way. */
bool request_client_gone(struct request *r);
int request_client_fd(const struct request *r); /* for poll with POLLRDHUP */
