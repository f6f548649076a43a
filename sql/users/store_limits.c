/* Limits of users, and the sums that are held against them. */
#include "sql/users/store_limits.h"

#include "sql/core/access_cache.h"
#include "sql/core/statement.h"
#include "sql/users/users_internal.h"

struct store_user_limits users_read_limits(sqlite3_stmt *q, int at)
{
    return (struct store_user_limits){.requests_per_minute = sqlite3_column_int64(q, at),
                                      .tokens_per_minute = sqlite3_column_int64(q, at + 1),
                                      .max_jobs = sqlite3_column_int64(q, at + 2),
                                      .tokens_per_day = sqlite3_column_int64(q, at + 3),
                                      .storage_bytes = sqlite3_column_int64(q, at + 4)};
}

bool store_limits_get(struct store *s, int64_t user_id, struct store_user_limits *out, bool *own,
                      struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_LIMITS_GET, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    int rc = statement_step(s, q, e);
    *own = rc == 1;
    *out = rc == 1 ? users_read_limits(q, 0) : (struct store_user_limits){0};
    statement_end(q);
    return rc >= 0;
}

const char *const store_limit_names[STORE_LIMITS] = {"requests_per_minute", "tokens_per_minute",
                                                     "max_jobs", "tokens_per_day", "storage_bytes"};

int64_t *store_limit_at(struct store_user_limits *l, int i)
{
    int64_t *const at[STORE_LIMITS] = {&l->requests_per_minute, &l->tokens_per_minute, &l->max_jobs,
                                       &l->tokens_per_day, &l->storage_bytes};
    return at[i];
}

/* Is `a` more generous than `b`? Both are said, or b is not. */
static bool more(int64_t a, int64_t b)
{
    return b == STORE_LIMIT_UNSAID || (b && (!a || a > b));
}

static void take_group(sqlite3_stmt *q, struct store_limits_given *out)
{
    struct store_user_limits l = users_read_group_limits(q, 1);
    for (int i = 0; i < STORE_LIMITS; i++) {
        const int64_t said = *store_limit_at(&l, i);
        int64_t *best = store_limit_at(&out->limits, i);
        if (said == STORE_LIMIT_UNSAID || !more(said, *best))
            continue;
        *best = said;
        out->group[i] = sqlite3_column_int64(q, 0);
    }
}

static bool read_given(struct store *s, int64_t user_id, struct store_limits_given *out,
                       struct err *e)
{
    *out = (struct store_limits_given){0};
    if (!store_limits_get(s, user_id, &out->limits, &out->own, e))
        return false;
    if (out->own)
        return true;
    for (int i = 0; i < STORE_LIMITS; i++)
        *store_limit_at(&out->limits, i) = STORE_LIMIT_UNSAID;
    int rc = -1;
    sqlite3_stmt *q = statement_begin(s, QUERY_LIMITS_OF_GROUPS, e);
    if (q)
        statement_bind_int(q, ":user_id", user_id);
    while (q && (rc = statement_step(s, q, e)) == 1)
        take_group(q, out);
    statement_end(q);
    return rc >= 0;
}

bool store_limits_given(struct store *s, int64_t user_id, struct store_limits_given *out,
                        struct err *e)
{
    const struct access_name name = {
        .kind = ACCESS_LIMITS, .bytes = &user_id, .len = sizeof user_id};
    const struct store_limits_given *kept = access_cache_get(s, &name);
    if (kept) {
        *out = *kept;
        return true;
    }
    if (!read_given(s, user_id, out, e))
        return false;
    access_cache_put(s, &name, out, sizeof *out);
    return true;
}

bool users_set_limits(struct store *s, int64_t user_id, const struct store_user_limits *l,
                      struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = statement_begin(s, l ? QUERY_LIMITS_SET : QUERY_LIMITS_REMOVE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    if (l) {
        statement_bind_int(q, ":requests_per_minute", l->requests_per_minute);
        statement_bind_int(q, ":tokens_per_minute", l->tokens_per_minute);
        statement_bind_int(q, ":max_jobs", l->max_jobs);
        statement_bind_int(q, ":tokens_per_day", l->tokens_per_day);
        statement_bind_int(q, ":storage_bytes", l->storage_bytes);
    }
    return statement_run(s, q, &changed, e) &&
           (!l || changed == 1 || err_set(e, ERR_NOTFOUND, "there is no such user"));
}

static bool number_of_user(struct store *s, enum query which, int64_t user_id, int64_t *out,
                           struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    return statement_int(s, q, out, e);
}

bool store_used_tokens(struct store *s, int64_t user_id, int64_t day, int64_t *tokens,
                       struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_USED_TODAY, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_int(q, ":day", day);
    return statement_int(s, q, tokens, e);
}

bool store_used_bytes(struct store *s, int64_t user_id, int64_t *bytes, struct err *e)
{
    return number_of_user(s, QUERY_USED_BYTES, user_id, bytes, e);
}

bool users_check_quota(struct store *s, int64_t user_id, int64_t quota, struct err *e)
{
    int64_t used = 0;
    if (!quota)
        return true;
    return store_used_bytes(s, user_id, &used, e) &&
           (used <= quota ||
            err_field(e, ERR_LIMIT, STORE_QUOTA_FIELD, "%lld bytes would be kept, %lld are allowed",
                      (long long)used, (long long)quota));
}

bool store_running_count(struct store *s, int64_t user_id, int64_t *n, struct err *e)
{
    return number_of_user(s, QUERY_RUNNING_OF_USER, user_id, n, e);
}
