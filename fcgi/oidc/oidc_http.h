/* One request to a server that signs people in, by libcurl. Bounded in time and size; TLS is
 * verified; plain http only where the address is this machine's; redirects are not followed, so
 * nobody is sent from there to somewhere else. Blocks its thread: only behind WORK_SIGN_IN.
 * Thread-safe. */
#pragma once
#include <stdbool.h>
#include <sys/socket.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

#define OIDC_HTTP_BYTES ((size_t)256 << 10) /* of an answer, at most */

struct oidc_http {
    const char *url;
    const char *form;          /* application/x-www-form-urlencoded; NULL: none */
    const char *json;          /* a body of this kind instead; both NULL: GET */
    const char *user, *secret; /* HTTP Basic, as they are to be sent; NULL: none */
    const char *bearer;        /* access token; NULL: none */
    double until;              /* clock_ms when it must have ended */
    /* Asked where the connection is made, so that no name that changes its address gets past.
     * False: not there. NULL: anywhere. */
    bool (*may_connect)(const struct sockaddr *address);
};
/* The body of an answer, whatever its status, which goes to *status; the caller frees *out. False:
 * no whole answer came, or it was too large; then *e says what for the log (ERR_UNAVAILABLE). */
bool oidc_http_ask(const struct oidc_http *h, struct buf *out, long *status, struct err *e);
