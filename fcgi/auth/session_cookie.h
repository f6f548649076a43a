/* The cookie that holds a session's token. Over TLS its name has the prefix __Host-, under which a
 * browser takes cookies from this very host by TLS alone: no other program of the host name, and no
 * sibling domain, can plant one. Over plain http, where no browser takes that name, it is the bare
 * one; so it was everywhere in earlier versions, whose sessions go on. Thread: the request's. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct request;

#define SESSION_COOKIE "sluice_session"
#define SESSION_COOKIE_SECURE "__Host-" SESSION_COOKIE

struct session_cookie {
    const char *token; /* NULL: none that could be one */
    bool outdated;     /* it came by TLS under the bare name */
};
/* ERR_AUTH and code ambiguous_session: two tokens that differ, of which someone may have planted
 * one; the reply then takes away the bare name. */
bool session_cookie_read(struct request *r, struct session_cookie *out, struct err *e);
/* max_age_s 0: takes it away. */
void session_cookie_send(struct request *r, const char *token, int64_t max_age_s);
/* The tokens that the request carries, each once, whether or not they differ. */
#define SESSION_COOKIES_MAX 8
int session_cookie_all(struct request *r, const char *tokens[SESSION_COOKIES_MAX]);
