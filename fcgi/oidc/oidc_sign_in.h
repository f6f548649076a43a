/* A sign-in by the provider, from the browser's departure to its return. What proves that the one
 * who returns is the one who left is a cookie that lives ten minutes; the database holds hashes of
 * it and of the state, and gives each out once. The verifier of PKCE and the nonce are derived from
 * the cookie and are kept nowhere. Thread: the request's. */
#pragma once
#include <stdbool.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

struct request;

/* Where the browser is to go, appended to *url, and its cookie. session_hash: of the session that
 * links the account; NULL: somebody signs in. */
bool oidc_sign_in_begin(struct request *r, const unsigned char *session_hash, struct buf *url,
                        struct err *e);
enum oidc_end {
    OIDC_SIGNED_IN, /* a session was begun */
    OIDC_LINKED,
    OIDC_CODE_OWED /* oidc_factor.h */
};
/* The provider has sent the browser back. False: *e for the log, and r->error_override.code for the
 * page. */
bool oidc_sign_in_end(struct request *r, enum oidc_end *how, struct err *e);
