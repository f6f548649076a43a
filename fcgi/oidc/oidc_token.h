/* From the code that a browser brought back to who has signed in: the code is redeemed, and the ID
 * token that comes for it checked. Blocks: only behind WORK_SIGN_IN. Thread: the request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct oidc_config;
struct oidc_provider;
struct request;

struct oidc_claims { /* texts in the request's arena; NULL where nothing is said */
    const char *issuer, *subject;
    const char *user_name; /* preferred_username */
    const char *full_name, *email;
    bool email_verified;
    const char *groups;       /* of the setting's claim: a JSON array of texts */
    const char *access_token; /* for oidc_token_ask_more */
};

struct oidc_exchange {
    const struct oidc_config *config;
    const struct oidc_provider *provider;
    const char *code, *verifier, *nonce;
    double until; /* clock_ms */
};
/* ERR_UNAVAILABLE: the provider can't be reached, or will not; ERR_INPUT: its token is not good. */
bool oidc_token_redeem(struct request *r, const struct oidc_exchange *x, struct oidc_claims *out,
                       struct err *e);
/* Asks the userinfo endpoint for what the ID token left out: many providers tell names and e-mail
 * addresses only there. */
bool oidc_token_ask_more(struct request *r, const struct oidc_exchange *x, struct oidc_claims *c,
                         struct err *e);

struct oidc_expected {
    const char *issuer, *client_id, *nonce;
    int64_t now_s;
};
/* Is a token of these claims for this very sign-in? ERR_INPUT: no, and why. Pure. */
bool oidc_token_check(const cJSON *claims, const struct oidc_expected *x, struct err *e);
