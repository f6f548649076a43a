/* Invitations: a link that makes one account. The link's token comes in as a hash only. Rules as in
 * sql/core/store.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/secret.h"

struct store;
struct store_user;
struct store_ids;

#define STORE_INVITES_MAX 1000 /* that are open at one time */
#define STORE_NOTE_MAX 64      /* characters */

struct store_invite {
    int64_t id;
    bool admin; /* the role that it gives */
    const char *note;
    int64_t made_by; /* user; 0: the machine's operator, by the command */
    int64_t created_at, expires_at, used_at, revoked_at; /* 0: never */
    const char *made_by_name, *used_by_name;             /* "" for nobody, or one who is gone */
    const struct store_ids *groups; /* in which the account will be; NULL: in none */
    const char *group_names;        /* of a list: a JSON array */
};

/* Of *n: admin, note, made_by, expires_at, groups. ERR_INPUT, ERR_LIMIT. */
bool store_invite_add(struct store *s, const struct store_invite *n,
                      const unsigned char hash[SECRET_HASH_BYTES], int64_t *id, struct err *e);
/* Of *out: admin, made_by and expires_at. ERR_NOTFOUND: unknown, used, revoked or expired. */
bool store_invite_open(struct store *s, const unsigned char hash[SECRET_HASH_BYTES],
                       struct store_invite *out, struct err *e);
typedef bool (*store_invite_fn)(void *context, const struct store_invite *n); /* false: enough */
struct store_invite_page {
    int64_t before; /* only ids below it; 0: all */
    int limit;
};
/* Newest first. */
bool store_invite_list(struct store *s, const struct store_invite_page *page, store_invite_fn fn,
                       void *context, struct err *e);
/* ERR_NOTFOUND: unknown, used or revoked already. */
bool store_invite_revoke(struct store *s, int64_t id, struct err *e);
/* Makes the account and uses the invitation up, both or neither. Of *u: name and password_hash; id
 * and admin come back in it. Errors of store_invite_open and store_user_add. */
bool store_invite_accept(struct store *s, const unsigned char hash[SECRET_HASH_BYTES],
                         struct store_user *u, struct err *e);
