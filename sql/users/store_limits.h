/* Limits of users, and how much of them is used. Rules as in sql/core/store.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct store;

struct store_user_limits { /* 0: none; each at most STORE_USER_LIMIT_MAX */
    int64_t requests_per_minute, tokens_per_minute, max_jobs;
    int64_t tokens_per_day; /* prompt and answer, of a UTC day */
    int64_t storage_bytes;  /* of messages' rows (all text in them), attachments, kept responses and
                               the API's conversations */
};
#define STORE_USER_LIMIT_MAX (INT64_C(1) << 50)
#define STORE_LIMITS 5          /* members of it */
#define STORE_LIMIT_UNSAID (-1) /* in what is given: nothing is said, which is not "none" */
/* The i-th of them, in the order above, and their names there. */
int64_t *store_limit_at(struct store_user_limits *l, int i);
extern const char *const store_limit_names[STORE_LIMITS];

/* *own: the user has limits of their own (store_user_change gives them); else *out is all zero. */
bool store_limits_get(struct store *s, int64_t user_id, struct store_user_limits *out, bool *own,
                      struct err *e);
struct store_limits_given {
    struct store_user_limits limits; /* STORE_LIMIT_UNSAID: what the server's settings say */
    bool own;                        /* the user's own limits, which are all of them */
    int64_t group[STORE_LIMITS];     /* whose it is where a group says it; else 0 */
};
/* What is said for a user: their own limits; else of each limit the most generous one of their
 * groups (store_groups.h): none before any number, then the highest. */
bool store_limits_given(struct store *s, int64_t user_id, struct store_limits_given *out,
                        struct err *e);
/* Prompt and answer tokens that are counted on a Unix day. */
bool store_used_tokens(struct store *s, int64_t user_id, int64_t day, int64_t *tokens,
                       struct err *e);
/* Bytes that the user keeps, deleted things until they are cleared away. */
bool store_used_bytes(struct store *s, int64_t user_id, int64_t *bytes, struct err *e);
/* The field of an ERR_LIMIT by which functions that take `storage_bytes` say that the user would
 * keep more than that. */
#define STORE_QUOTA_FIELD "storage"
/* Answers of the user's conversations that run now. */
bool store_running_count(struct store *s, int64_t user_id, int64_t *n, struct err *e);
