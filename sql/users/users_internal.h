/* Steps that the files on users share, most of them within a transaction of the caller. Inside sql/
 * only. */
#pragma once
#include <sqlite3.h>

#include "sql/users/store_limits.h"
#include "sql/users/store_users.h"

/* Names of users and keys: the rule is in store_users.h. */
bool users_check_name(const char *name, const char *field, struct err *e);
/* A row of the columns id, name, role, disabled, password, settings, created_at; texts into the
 * arena. */
bool users_copy(sqlite3_stmt *q, struct arena *a, struct store_user *u, struct err *e);
/* Inside a write transaction of the caller. */
bool users_insert_key(struct store *s, const struct store_key *k, const unsigned char *hash,
                      int64_t *id, struct err *e);
bool users_insert(struct store *s, const struct store_user *u, int64_t *id, struct err *e);
/* All sessions but the one with keep's hash; NULL: all. */
/* n: how many there were, or NULL. */
bool users_end_sessions(struct store *s, int64_t user_id, const unsigned char *keep, int *n,
                        struct err *e);
/* ERR_CONFLICT: the user is the last admin who can log in. ERR_NOTFOUND. */
bool users_check_other_admin(struct store *s, int64_t id, struct err *e);
/* Revokes the user's open invitations that would make an admin, so that a former admin cannot
 * return by one. */
bool users_revoke_admin_invites(struct store *s, int64_t user_id, struct err *e);
/* ERR_CONFLICT as users_check_other_admin. */
bool users_set_disabled(struct store *s, int64_t id, bool disabled, struct err *e);
/* NULL: everyone's. */
bool users_set_limits(struct store *s, int64_t user_id, const struct store_user_limits *l,
                      struct err *e);
bool users_remove_factor(struct store *s, int64_t user_id, struct err *e);
/* Memberships by the sign-in provider's word end: groups [STORE_GROUPS_MAX] are those left. */
bool users_leave_claimed(struct store *s, int64_t user_id, int64_t *groups, int *n, struct err *e);
bool users_unlink_oidc(struct store *s, int64_t user_id, struct err *e);
bool users_remove_passkeys(struct store *s, int64_t user_id, struct err *e);
/* Inside a write transaction, after what it adds: ERR_LIMIT, field STORE_QUOTA_FIELD, when the user
 * keeps more than `quota` bytes now (0: no limit). So of several who come at once none is judged by
 * what was there before the others. */
bool users_check_quota(struct store *s, int64_t user_id, int64_t quota, struct err *e);
/* The five columns of user_limits from `at` on. */
struct store_user_limits users_read_limits(sqlite3_stmt *q, int at);
/* The five columns of user_groups: STORE_LIMIT_UNSAID where they are NULL. */
struct store_user_limits users_read_group_limits(sqlite3_stmt *q, int at);
/* As users_copy, but the texts are SQLite's, until the next step. */
void users_borrow(sqlite3_stmt *q, struct store_user *u);
