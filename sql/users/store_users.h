/* Users, sessions and API keys. Secrets come in as hashes only (sql/core/secret.h). Rules as in
 * sql/core/store.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/secret.h"
#include "sql/core/store.h"
#include "sql/users/store_limits.h"

struct arena;
struct store;

#define STORE_NAME_MAX 64 /* characters of a user's or a key's name */

struct store_user {
    int64_t id;
    const char *name;
    bool admin;
    bool disabled; /* can't log in; store_session_find and store_key_find do not find them */
    const char *password_hash; /* argon2id string; never leaves the server */
    const char *settings;      /* JSON object: the user's defaults */
    int64_t created_at;
};

/* Of *u: name, password_hash and admin. name: 1..STORE_NAME_MAX characters, no control characters,
 * no blanks at the ends; unique without regard to (ASCII) case: ERR_CONFLICT. password_hash: from
 * secret_password_hash. */
bool store_user_add(struct store *s, const struct store_user *u, int64_t *id, struct err *e);
bool store_user_by_name(struct store *s, struct arena *a, const char *name, struct store_user *out,
                        struct err *e);
bool store_user_by_id(struct store *s, struct arena *a, int64_t id, struct store_user *out,
                      struct err *e);
typedef bool (*store_user_fn)(void *context, const struct store_user *u); /* false: enough */
bool store_user_list(struct store *s, store_user_fn fn, void *context, struct err *e);
struct store_new_password {
    const char *hash;                  /* of secret_password_hash */
    const unsigned char *keep_session; /* hash of the session that goes on; NULL: all of them end */
    bool revoke_keys;                  /* ends the user's API keys too */
    bool revoke_passkeys;
};
bool store_user_set_password(struct store *s, int64_t id, const struct store_new_password *p,
                             struct err *e);
bool store_user_set_disabled(struct store *s, int64_t id, bool disabled, struct err *e);
/* Settings with which the user's conversations begin: a JSON object, checked by the caller. */
bool store_user_defaults(struct store *s, struct arena *a, int64_t id, const char **json,
                         struct err *e);
bool store_user_set_defaults(struct store *s, int64_t id, const char *json, struct err *e);
/* How the user likes the page: a JSON object of at most 8192 characters, checked by the caller. */
bool store_user_preferences(struct store *s, struct arena *a, int64_t id, const char **json,
                            struct err *e);
bool store_user_set_preferences(struct store *s, int64_t id, const char *json, struct err *e);
/* At once: no login, no session, no key, name free again. The rows of the user's conversations and
 * projects are removed by the recorder soon after, in small steps; nobody reaches them meanwhile.
 * ERR_CONFLICT: the last admin stays. */
bool store_user_remove(struct store *s, int64_t id, struct err *e);

struct store_user_overview { /* as an admin sees a user */
    struct store_user user;  /* texts until the callback returns */
    bool second_factor;
    int64_t sessions, keys, last_seen; /* last_seen: exact to five minutes; 0: never */
    int64_t tokens_today, stored_bytes;
    bool own_limits;
    struct store_user_limits limits; /* when own_limits */
};
struct store_user_page {
    int64_t after; /* only ids above it */
    int64_t only;  /* this one user; 0: all */
    int limit;
};
/* In the order of the ids. */
typedef bool (*store_user_overview_fn)(void *context,
                                       const struct store_user_overview *u); /* false: enough */
bool store_user_overview_list(struct store *s, const struct store_user_page *page,
                              store_user_overview_fn fn, void *context, struct err *e);

struct store_user_change {              /* what is not said stays as it is */
    struct store_new_password password; /* hash NULL: the old one */
    bool has_role,
        admin; /* an admin who is demoted loses the open invitations that would make admins */
    bool has_disabled, disabled; /* a disabled account's sessions end */
    bool drop_factor;            /* takes the second factor away */
    bool has_limits;
    const struct store_user_limits *limits; /* when has_limits; NULL: everyone's */
};
/* All of it or nothing. ERR_CONFLICT: the last admin who can log in stays one. ERR_NOTFOUND. */
bool store_user_change(struct store *s, int64_t id, const struct store_user_change *c,
                       struct err *e);

struct store_session {
    int64_t user_id;
    unsigned char token_hash[SECRET_HASH_BYTES]; /* secret_hash(token) */
    int64_t created_at, expires_at;
    const char *address, *agent; /* of the client at login; cut to 64 and 200 bytes */
};
#define STORE_SESSION_MS ((int64_t)30 * 24 * 3600 * 1000) /* from the last use */

bool store_session_add(struct store *s, const struct store_session *n, struct err *e);
/* Finds the user of a session. ERR_AUTH when it is unknown, expired, or its user disabled. A use
 * pushes the expiry out to now + STORE_SESSION_MS (written at most every five minutes), but never
 * beyond 90 days after the login (session_longest_ms in sql/queries/users.sql). */
bool store_session_find(struct store *s, struct arena *a, const unsigned char *token_hash,
                        struct store_user *out, struct err *e);
struct store_session_found {
    struct store_user user;
    int64_t expires_at;
    bool renewed; /* this use pushed expires_at out */
};
/* The same, and says when the session ends. */
bool store_session_use(struct store *s, struct arena *a, const unsigned char *token_hash,
                       struct store_session_found *out, struct err *e);
/* Its user has just proved who they are, as they do by logging in. */
bool store_session_confirm(struct store *s, const unsigned char *token_hash, struct err *e);
struct store_confirmation {
    const unsigned char *token_hash;
    int64_t since_ms; /* the wall clock's: not longer ago */
    bool use_up;      /* it serves this once */
};
/* *yes: the session's user has proved it since then. Of several who use one up at the same time one
 * is told so. */
bool store_session_confirmed(struct store *s, const struct store_confirmation *c, bool *yes,
                             struct err *e);
/* Logout; an unknown session is no error. */
bool store_session_remove(struct store *s, const unsigned char *token_hash, struct err *e);

struct store_session_seen {
    const char *id;                          /* 16 letters, of no use to log in */
    int64_t created_at, used_at, expires_at; /* used_at: exact to five minutes */
    const char *address, *agent;             /* at login */
    bool current;
};
typedef bool (*store_session_fn)(void *context,
                                 const struct store_session_seen *n); /* false: enough */
struct store_session_viewer {
    int64_t user_id;
    const unsigned char *current; /* hash of the session that asks; NULL: none */
};
/* A user's sessions, the last used one first. */
bool store_session_list(struct store *s, const struct store_session_viewer *v, store_session_fn fn,
                        void *context, struct err *e);
bool store_session_end(struct store *s, int64_t user_id, const char *id,
                       struct err *e); /* ERR_NOTFOUND */
/* All but the one with keep's hash; NULL: all. *n: how many there were (may be NULL). */
bool store_session_end_all(struct store *s, int64_t user_id, const unsigned char *keep, int *n,
                           struct err *e);

enum store_scope {
    STORE_INFERENCE = 1,
    STORE_HISTORY = 2,
    STORE_ADMIN = 4,
    STORE_METRICS = 8,
    STORE_SCOPES = 7,     /* of a key for which nothing is said; admin includes metrics */
    STORE_SCOPES_ALL = 15 /* that there are */
};

struct store_key_terms {         /* zeroed: everything, for ever, without limit */
    int64_t scopes;              /* bits of enum store_scope; 0 in store_key_add: STORE_SCOPES */
    int64_t expires_at;          /* 0: never */
    int64_t requests_per_minute; /* limits: 0 is none, at most STORE_LIMIT_MAX */
    int64_t tokens_per_minute;
    int64_t max_jobs; /* that run or wait at one time */
    bool
        strict_parameters; /* a parameter without effect is refused, not only named in the answer */
};
#define STORE_LIMIT_MAX 1000000000

struct store_key {
    int64_t id, user_id;
    const char *name, *prefix;        /* prefix: the key's first characters, to tell keys apart */
    int64_t created_at, last_used_at; /* 0: never; exact to a minute */
    struct store_key_terms terms;
};
/* Of *k: user_id, name, prefix and terms. */
bool store_key_add(struct store *s, const struct store_key *k, const unsigned char *key_hash,
                   int64_t *id, struct err *e);
struct store_key_found {
    struct store_user user; /* without password_hash and settings; the name into the arena */
    struct store_key key;   /* without name and prefix */
};
/* ERR_AUTH when unknown, expired or its user disabled. */
bool store_key_find(struct store *s, struct arena *a, const unsigned char *key_hash,
                    struct store_key_found *out, struct err *e);
/* A user's own key; texts into the arena. ERR_NOTFOUND. */
bool store_key_get(struct store *s, struct arena *a, const struct store_ref *key,
                   struct store_key *out, struct err *e);
/* New terms, all of them; the next request with the key obeys them. ERR_NOTFOUND. */
bool store_key_change(struct store *s, int64_t user_id, int64_t id, const struct store_key_terms *t,
                      struct err *e);
typedef bool (*store_key_fn)(void *context, const struct store_key *k);
bool store_key_list(struct store *s, int64_t user_id, store_key_fn fn, void *context,
                    struct err *e);
bool store_key_remove(struct store *s, int64_t user_id, int64_t id, struct err *e);

/* The first start: when there is no user yet, makes the admin `name` with a random password and an
 * API key, and gives them out this once. *made is false, and *out untouched, when users exist. Safe
 * in several processes. */
struct store_first_admin {
    char name[STORE_NAME_MAX * 4 + 1];
    char password[SECRET_PASSWORD_SIZE];
    char key[SECRET_KEY_SIZE];
};
bool store_first_admin(struct store *s, const char *name, struct store_first_admin *out, bool *made,
                       struct err *e);
