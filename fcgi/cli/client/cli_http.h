/* One request of a command to a Sluice server, over libcurl. One thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

struct cli_http {
    const char *url; /* of the server, without a slash at its end */
    const char *key; /* NULL: none */
};

struct cli_http_call {
    const char *method, *path;
    const char *body, *type; /* NULL: none; type NULL: application/json */
    size_t body_len;
    /* Takes the body of a good answer as it comes; false ends the request with ERR_CANCELLED. NULL:
     * all of it is in *out. */
    bool (*on_data)(void *context, const char *data, size_t n);
    void *context;
};

/* What came is in out (with on_data: only an error's body). A status of 400 or more is an error
 * with the server's own words; *status says which. Nobody there: ERR_UNAVAILABLE, with what starts
 * a server. */
bool cli_http_do(const struct cli_http *h, const struct cli_http_call *c, struct buf *out,
                 long *status, struct err *e);
/* "http://..." without a slash at its end, in buf-owned memory of the caller; ERR_INPUT: no URL. */
bool cli_http_url(const char *text, char *out, size_t size, struct err *e);
