/* Accounts at an OpenID provider that sign in as users of this server, and sign-ins that are under
 * way at the provider. An account is known by issuer and subject alone: never by a name or an
 * e-mail address, which people change and providers give to others. Rules as in sql/core/store.h.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/secret.h"
#include "sql/users/store_users.h"

struct arena;
struct store;

#define STORE_OIDC_SUBJECT_MAX 255 /* bytes: OpenID Connect allows no more */
#define STORE_OIDC_LABEL_MAX 200   /* bytes */
#define STORE_OIDC_FLOW_MS ((int64_t)10 * 60 * 1000)
#define STORE_OIDC_FLOWS_MAX 10000 /* under way at one time */

struct store_oidc_identity {
    int64_t user_id; /* whose sign-in it is */
    const char *issuer, *subject;
    const char *label; /* what its owner knows it by; cut to STORE_OIDC_LABEL_MAX */
    int64_t created_at, used_at;
};

/* The user whom the account signs in, disabled or not. ERR_NOTFOUND: nobody. */
bool store_oidc_find(struct store *s, struct arena *a, const struct store_oidc_identity *who,
                     struct store_user *out, struct err *e);
/* Writes the time of use; a power cut may undo it. */
bool store_oidc_used(struct store *s, const struct store_oidc_identity *who, struct err *e);
/* Of *i: all but the times. ERR_CONFLICT: the account is linked already, to this user or another,
 * or the user has one of that issuer. */
bool store_oidc_link(struct store *s, const struct store_oidc_identity *i, struct err *e);
/* Makes the user, as store_user_add does, and links the account, in one transaction. */
bool store_oidc_create(struct store *s, const struct store_user *u,
                       const struct store_oidc_identity *i, int64_t *id, struct err *e);
typedef bool (*store_oidc_fn)(void *context, const struct store_oidc_identity *i);
/* A user's; without the subjects. */
bool store_oidc_list(struct store *s, int64_t user_id, store_oidc_fn fn, void *context,
                     struct err *e);
struct store_oidc_end {
    int64_t user_id;
    const char *issuer;
    void (*moved)(void *context, int64_t group_id, bool added); /* NULL, or as below */
    void *context;
};
/* The user's account of that issuer, and with it the memberships that were the provider's word:
 * each is told after the commit. Another account's come back at its next sign-in. ERR_NOTFOUND. */
bool store_oidc_unlink(struct store *s, const struct store_oidc_end *end, struct err *e);

struct store_oidc_flow {
    unsigned char state_hash[SECRET_HASH_BYTES], browser_hash[SECRET_HASH_BYTES];
    bool links;                                    /* a session asked for it, to link the account */
    unsigned char session_hash[SECRET_HASH_BYTES]; /* when it links */
};
/* Ends after STORE_OIDC_FLOW_MS. A power cut may undo it: then it begins anew. ERR_BUSY: too many
 * are under way. */
bool store_oidc_flow_add(struct store *s, const struct store_oidc_flow *f, struct err *e);
/* Takes it away and fills in what the hashes of state and browser do not say. ERR_NOTFOUND: there
 * is none, or no more, or another browser began it. */
bool store_oidc_flow_take(struct store *s, struct store_oidc_flow *f, struct err *e);
