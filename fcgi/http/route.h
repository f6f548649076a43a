/* The route table: which handler answers a method and a path, who may call it, how large its body
 * may be.
 *
 * A resource is one file api_<noun>.c that holds its handlers and one table `api_<noun>_routes`,
 * ended by a zeroed row; fcgi/routes.c lists the tables, and that list is the whole map of the API.
 * Tables are constant. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/err.h"
#include "fcgi/process/shared.h"

struct api_dialect;
struct request;

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_PATCH,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_OTHER
};

enum route_auth {
    ROUTE_OPEN, /* anyone */
    ROUTE_USER, /* session cookie (with the CSRF token when the method changes something) or API key
                 */
    ROUTE_ADMIN,   /* the same, and the user is an admin */
    ROUTE_FIGURES, /* the same, or anyone where the setting metrics_open is on */
};

/* True: a reply was sent (or a stream was begun and ended). False: *e says why; the dispatcher
 * sends it as the error object, unless a reply was begun already. */
typedef bool (*route_handler)(struct request *r, struct err *e);

/* What an API key must be allowed to do; a session may do all that its user may. Bits, those of
 * sql's store_scope. */
enum key_scope {
    SCOPE_ANY = 0,       /* any valid key */
    SCOPE_INFERENCE = 1, /* run the model, tokenize */
    SCOPE_HISTORY = 2,   /* the user's conversations */
    SCOPE_ADMIN = 4,     /* the user's keys and password; for admins the server, its figures too */
    SCOPE_METRICS = 8,   /* the server's figures, for admins */
};

/* What /openapi.json says of the route (openapi.c). Schemas are members of
 * fcgi/openapi/<noun>.json. */
struct route_doc {
    const char *summary; /* one line: "Answer a chat" */
    const char *body;    /* schema of the body; NULL: no body */
    const char *upload; /* media type of a body that is no JSON: its handler reads it piece by piece
                           with request_body_read. NULL: the body is read before the handler */
    const char *query;  /* schema whose properties are the query's parameters; NULL: none */
    const char *reply;  /* schema of the good reply; NULL: no JSON */
    const char *media;  /* its type where it is neither JSON nor nothing: "text/plain" */
    const char *error;  /* schema of the errors; NULL: "Error", OpenAI's */
    bool any_type;      /* the body is JSON whatever its Content-Type says, as this API's own server
                           reads it */
    const char *statuses; /* "201 409": the good one first (501: there is none), then what is
                             particular to this route; 400, 401, 403, 404, 411, 413, 415, 429, 503
                             and 507 come by themselves where the row's other members bring them */
    bool streams; /* text/event-stream when the body says "stream": true, or always when reply is
                     NULL */
};

struct route {
    enum http_method method;
    const char *path; /* "/api/conversations/{id}/messages": a {name} takes one segment;
                         request_param gives it */
    enum route_auth auth;
    enum worker_pool pool; /* whose socket nginx sends the path to */
    size_t body_limit;     /* bytes; 0: a body is not read */
    route_handler handler;
    enum key_scope scope;
    bool probe;     /* a 503 is what it found, and no failure of its own */
    bool polled;    /* open pages ask again and again: a reply that went well is logged for debug */
    bool confirmed; /* a session must have proved lately who it is: auth/confirmation.h */
    struct route_doc doc;
    const struct api_dialect *dialect; /* dialect.h; NULL: dialect_default */
};

#define ROUTE_JSON_BODY ((size_t)256 << 10) /* a small JSON object */
#define ROUTE_CHAT_BODY                                                                            \
    ((size_t)16 << 20) /* messages; nginx has the same limit for these paths                       \
                        */

/* What this room asks of the rooms above it. worker_main.c sets them; without, only open routes are
 * served. */
struct http_hooks {
    bool (*authorise)(struct request *r,
                      struct err *e); /* before a route's body is read: fills r->who; false: *e and
                                         r->error_override */
    void (*on_head)(struct request *r); /* adds headers to a reply whose head is about to be sent */
};

extern const struct route *const route_tables[]; /* ended by NULL: fcgi/routes.c */

struct route_match {
    const struct route *route; /* NULL: no such path, or not with this method */
    int index;                 /* of the route over all tables, for counters; -1: none */
    unsigned allowed;          /* bit per enum http_method that the path has; 0: no such path */
};

/* Finds the route; *r's params are filled from the path. HEAD matches GET's row. */
struct route_match route_find(struct request *r, enum http_method method, const char *path);
/* The path that a request for one that is not there probably meant: with /v1 before it, or without
 * what stands before; in the request's arena. NULL: none is near. */
const char *route_hint(struct request *r);
/* All routes in order, for counters and descriptions; NULL past the end. */
const struct route *route_at(int index);
int route_count(void);
enum http_method http_method_from_name(const char *name);
const char *http_method_name(enum http_method m);

/* Authorises, reads, dispatches, answers errors, counts and logs one accepted request. refused: why
 * request_begin would not have it, or NULL. */
void route_serve(struct request *r, const struct err *refused);
/* Counts the request once, also before it is over: where a handler lets its client see the reply's
 * end while it has still to do, the counters are right when the client looks at them. */
void route_counts(struct request *r);
