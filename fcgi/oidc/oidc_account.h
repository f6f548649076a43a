/* Whose account here is it that somebody has at the provider? Issuer and subject decide, and
 * nothing else: no account is ever found by a name or an e-mail address. Thread: the request's. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct oidc_exchange;
struct oidc_claims;
struct request;
struct store_user;

/* The user who signs in; made where the policy says so. Refusals have a code of their own:
 * oidc_no_account, oidc_domain, oidc_name_taken, oidc_disabled. */
bool oidc_account_find(struct request *r, const struct oidc_exchange *x, struct oidc_claims *c,
                       struct store_user *user, struct err *e);
/* What the provider said of the user's groups ends with it. ERR_NOTFOUND. */
bool oidc_account_unlink(struct request *r, const struct store_user *user, const char *issuer,
                         struct err *e);
/* Links it to the user of this session, who asked for it. Refusals: oidc_session, oidc_linked. */
bool oidc_account_link(struct request *r, const unsigned char *session_hash,
                       const struct oidc_claims *c, struct err *e);
