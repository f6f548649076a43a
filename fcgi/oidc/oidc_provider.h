/* The provider as its discovery document describes it, and its keys. Both are kept in the process
 * for some minutes; a token with an unknown key makes the keys be fetched again, but not more often
 * than twice a minute. Blocks: only behind WORK_SIGN_IN. Thread-safe. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/err.h"

struct arena;
struct oidc_config;

struct oidc_provider { /* texts in the arena */
    const char *authorization_endpoint, *token_endpoint, *jwks_uri;
    const char *userinfo_endpoint; /* NULL: none */
    bool secret_in_body;           /* the client's: in the form, not as HTTP Basic */
    bool names_itself;             /* its answers carry `iss` (RFC 9207) */
};
/* until: clock_ms when it must have ended. ERR_UNAVAILABLE: it can't be reached. ERR_FORMAT: it
 * says what can't be. */
bool oidc_provider_find(const struct oidc_config *c, struct arena *a, double until,
                        struct oidc_provider *out, struct err *e);
/* Verifies an ID token's signature. The caller frees the claims; NULL: *e, ERR_INPUT when it is the
 * token's fault. */
cJSON *oidc_provider_verify(const struct oidc_provider *p, const char *token, double until,
                            struct err *e);
