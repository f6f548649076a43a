/* Users as an admin sees and changes them, and the audit log as it is searched. Rules as in sql/core/store.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/store.h"
#include "sql/users/store_limits.h"
#include "sql/users/store_users.h"

struct store_person {
    struct store_user user; /* texts until the callback returns */
    bool second_factor;
    int64_t sessions, keys, last_seen; /* last_seen: exact to five minutes; 0: never */
    int64_t tokens_today, stored_bytes;
    bool own_limits;
    struct store_user_limits limits; /* when own_limits */
};
typedef bool (*store_person_fn)(void *context, const struct store_person *p); /* false: enough */
/* By id, those above `after`; only: this one user, 0: all. */
bool store_person_list(struct store *s, int64_t after, int limit, int64_t only, store_person_fn fn, void *context,
                       struct err *e);

struct store_user_change {         /* what is not said stays as it is */
    const char *password_hash;     /* NULL: the old one; a new one ends all sessions */
    bool has_role, admin;          /* who no longer is an admin loses the open invitations that would make one */
    bool has_disabled, disabled;   /* a disabled account's sessions end */
    bool drop_factor;              /* takes the second factor away */
    bool has_limits;
    const struct store_user_limits *limits; /* when has_limits; NULL: everyone's */
};
/* All of it or nothing. ERR_CONFLICT: the last admin who can log in stays one. ERR_NOTFOUND. */
bool store_user_change(struct store *s, int64_t id, const struct store_user_change *c, struct err *e);

struct store_audit_filter {
    int64_t before;       /* id; 0: from the newest */
    int64_t since, until; /* Unix ms, since <= at < until; until 0: no end */
    const char *user;     /* who; NULL: anyone */
    const char *action;   /* "login" also finds "login.fail"; NULL: any */
};
bool store_audit_search(struct store *s, const struct store_audit_filter *f, int limit, store_audit_fn fn, void *context,
                        struct err *e);
