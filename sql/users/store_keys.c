/* Finds the user behind an API key, by the key's hash, with the terms of the key. */
#include <stdio.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "sql/core/access_cache.h"
#include "sql/core/statement.h"
#include "sql/users/users_internal.h"

#define KEY_TOUCH_MS ((int64_t)60 * 1000)
#define MAX_KEYS 100 /* of one user */

static bool check_terms(const struct store_key_terms *t, struct err *e)
{
    if (t->scopes < 0 || t->scopes > STORE_SCOPES_ALL)
        return err_field(e, ERR_INPUT, "scopes", "has bits that are no scope");
    if (t->expires_at < 0)
        return err_field(e, ERR_INPUT, "expires_at", "must not be negative");
    const struct {
        const char *name;
        int64_t v;
    } rows[] = {{"requests_per_minute", t->requests_per_minute},
                {"tokens_per_minute", t->tokens_per_minute},
                {"max_jobs", t->max_jobs}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].v < 0 || rows[i].v > STORE_LIMIT_MAX)
            return err_field(e, ERR_INPUT, rows[i].name, "must be from 0 to %d", STORE_LIMIT_MAX);
    return true;
}

static void bind_terms(sqlite3_stmt *q, const struct store_key_terms *t)
{
    statement_bind_int(q, ":scopes", t->scopes ? t->scopes : STORE_SCOPES);
    statement_bind_int(q, ":expires_at", t->expires_at);
    statement_bind_int(q, ":requests_per_minute", t->requests_per_minute);
    statement_bind_int(q, ":tokens_per_minute", t->tokens_per_minute);
    statement_bind_int(q, ":max_jobs", t->max_jobs);
    statement_bind_int(q, ":strict_parameters", t->strict_parameters);
}

/* Six columns from `at` on. */
static struct store_key_terms read_terms(sqlite3_stmt *q, int at)
{
    return (struct store_key_terms){
        .scopes = sqlite3_column_int64(q, at),
        .expires_at = sqlite3_column_int64(q, at + 1),
        .requests_per_minute = sqlite3_column_int64(q, at + 2),
        .tokens_per_minute = sqlite3_column_int64(q, at + 3),
        .max_jobs = sqlite3_column_int64(q, at + 4),
        .strict_parameters = sqlite3_column_int64(q, at + 5) != 0,
    };
}

bool users_insert_key(struct store *s, const struct store_key *k, const unsigned char *hash,
                      int64_t *id, struct err *e)
{
    int64_t count = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_KEY_COUNT, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", k->user_id);
    if (!statement_int(s, q, &count, e))
        return false;
    if (count >= MAX_KEYS)
        return err_set(e, ERR_LIMIT, "a user can have %d keys; remove one first", MAX_KEYS);
    if (!(q = statement_begin(s, QUERY_KEY_ADD, e)))
        return false;
    statement_bind_int(q, ":user_id", k->user_id);
    statement_bind_text(q, ":name", k->name);
    statement_bind_text(q, ":prefix", k->prefix);
    statement_bind_blob(q, ":key_hash", hash, SECRET_HASH_BYTES);
    statement_bind_int(q, ":now", clock_wall_ms());
    bind_terms(q, &k->terms);
    return statement_int(s, q, id, e);
}

bool store_key_add(struct store *s, const struct store_key *k, const unsigned char *key_hash,
                   int64_t *id, struct err *e)
{
    if (!users_check_name(k->name, "name", e) || !check_terms(&k->terms, e) ||
        !store_write_begin(s, e))
        return false;
    return store_write_end(s, users_insert_key(s, k, key_hash, id, e), e);
}

/* False: another writes just now. */
static bool touch_key(struct store *s, int64_t id, int64_t now)
{
    if (!store_write_try(s))
        return false;
    sqlite3_stmt *q = statement_begin(s, QUERY_KEY_USED, NULL);
    if (q) {
        statement_bind_int(q, ":id", id);
        statement_bind_int(q, ":now", now);
    }
    return store_write_end(s, q && statement_run(s, q, NULL, NULL), NULL);
}

/* What is kept of a key that was found. */
struct kept {
    struct store_key_found found;
    char name[4 * STORE_NAME_MAX + 1]; /* the user's */
};

static struct access_name name_of(const unsigned char *key_hash)
{
    return (struct access_name){.kind = ACCESS_KEY, .bytes = key_hash, .len = SECRET_HASH_BYTES};
}

static bool recall(struct store *s, struct arena *a, const unsigned char *key_hash,
                   struct store_key_found *out)
{
    const struct access_name name = name_of(key_hash);
    const struct kept *kept = access_cache_get(s, &name);
    if (!kept)
        return false;
    *out = kept->found;
    out->user.name = arena_strdup(a, kept->name);
    return out->user.name != NULL;
}

static void keep(struct store *s, const unsigned char *key_hash,
                 const struct store_key_found *found)
{
    const struct access_name name = name_of(key_hash);
    struct kept kept = {.found = *found};
    kept.found.user.name = NULL;
    snprintf(kept.name, sizeof kept.name, "%s", found->user.name);
    access_cache_put(s, &name, &kept, sizeof kept);
}

static bool find(struct store *s, struct arena *a, const unsigned char *key_hash,
                 struct store_key_found *out, struct err *e)
{
    if (recall(s, a, key_hash, out))
        return true;
    sqlite3_stmt *q = statement_begin(s, QUERY_KEY_FIND, e);
    if (!q)
        return false;
    statement_bind_blob(q, ":key_hash", key_hash, SECRET_HASH_BYTES);
    const int rc = statement_step(s, q, e);
    bool ok = rc == 1 || (rc == 0 && err_set(e, ERR_AUTH, "the API key is not valid"));
    if (ok) {
        users_borrow(q, &out->user);
        out->user.password_hash = out->user.settings = NULL;
        out->key = (struct store_key){.id = sqlite3_column_int64(q, 7),
                                      .user_id = out->user.id,
                                      .last_used_at = sqlite3_column_int64(q, 8),
                                      .terms = read_terms(q, 9)};
        ok = statement_column_copy(q, 1, a, &out->user.name, e);
    }
    statement_end(q);
    if (ok)
        keep(s, key_hash, out);
    return ok;
}

bool store_key_find(struct store *s, struct arena *a, const unsigned char *key_hash,
                    struct store_key_found *out, struct err *e)
{
    const int64_t now = clock_wall_ms();
    struct store_key *k = &out->key;
    if (!find(s, a, key_hash, out, e))
        return false;
    if (k->terms.expires_at && k->terms.expires_at <= now)
        return err_set(e, ERR_AUTH, "the API key has expired");
    if (now - k->last_used_at > KEY_TOUCH_MS) {
        const int64_t before = k->last_used_at;
        k->last_used_at = now; /* kept so before the write, with which what is kept is left */
        keep(s, key_hash, out);
        k->last_used_at = before;
        if (!touch_key(s, k->id, now)) { /* the next request tries again */
            const struct access_name name = name_of(key_hash);
            access_cache_drop(s, &name);
        }
    }
    return true;
}

static struct store_key read_key(sqlite3_stmt *q)
{
    return (struct store_key){
        .id = sqlite3_column_int64(q, 0),
        .user_id = sqlite3_column_int64(q, 1),
        .name = statement_column_text(q, 2),
        .prefix = statement_column_text(q, 3),
        .created_at = sqlite3_column_int64(q, 4),
        .last_used_at = sqlite3_column_int64(q, 5),
        .terms = read_terms(q, 6),
    };
}

bool store_key_list(struct store *s, int64_t user_id, store_key_fn fn, void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_KEY_LIST, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    int rc;
    while ((rc = statement_step(s, q, e)) == 1) {
        const struct store_key k = read_key(q);
        if (!fn(context, &k))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

bool store_key_get(struct store *s, struct arena *a, const struct store_ref *key,
                   struct store_key *out, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_KEY_GET, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", key->user_id);
    statement_bind_int(q, ":id", key->id);
    int rc = statement_step(s, q, e);
    bool ok = rc == 1;
    if (ok) {
        *out = read_key(q);
        ok = statement_column_copy(q, 2, a, &out->name, e) &&
             statement_column_copy(q, 3, a, &out->prefix, e);
    }
    statement_end(q);
    return rc == 0 ? err_set(e, ERR_NOTFOUND, "there is no such key") : ok;
}

/* One row of the user's, or ERR_NOTFOUND. */
static bool write_one(struct store *s, sqlite3_stmt *q, int64_t user_id, int64_t id, struct err *e)
{
    int changed = 0;
    if (q) {
        statement_bind_int(q, ":user_id", user_id);
        statement_bind_int(q, ":id", id);
    }
    return q && statement_run(s, q, &changed, e) &&
           (changed == 1 || err_set(e, ERR_NOTFOUND, "there is no such key"));
}

bool store_key_change(struct store *s, int64_t user_id, int64_t id, const struct store_key_terms *t,
                      struct err *e)
{
    if (!check_terms(t, e) || !store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = statement_begin(s, QUERY_KEY_CHANGE, e);
    if (q)
        bind_terms(q, t);
    return store_write_end(s, write_one(s, q, user_id, id, e), e);
}

bool store_key_remove(struct store *s, int64_t user_id, int64_t id, struct err *e)
{
    if (!store_write_begin(s, e))
        return false;
    return store_write_end(s, write_one(s, statement_begin(s, QUERY_KEY_REMOVE, e), user_id, id, e),
                           e);
}
