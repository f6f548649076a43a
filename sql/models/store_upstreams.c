/* store_upstreams.h: rows of other servers; their keys are sealed under the row's id, so that none
 * opens as another's. */
#include "sql/models/store_upstreams.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "sql/core/secret.h"
#include "sql/core/statement.h"
#include "sql/core/store.h"
#include "sql/models/models_internal.h"
#include "sql/models/store_models.h"

static void seal_name(char out[48], int64_t id)
{
    snprintf(out, 48, "upstream.key:%lld", (long long)id);
}

static bool set_key(struct store *s, int64_t id, const char *key, struct err *e)
{
    unsigned char sealed[STORE_UPSTREAM_KEY_BYTES + STORE_SEALED_EXTRA];
    char name[48];
    const size_t len = strlen(key);
    int changed = 0;
    if (len > STORE_UPSTREAM_KEY_BYTES)
        return err_field(e, ERR_INPUT, "key", "is longer than %d bytes", STORE_UPSTREAM_KEY_BYTES);
    seal_name(name, id);
    if (len && !store_setting_seal(s, name, key, sealed, e))
        return false;
    sqlite3_stmt *q = statement_begin(s, QUERY_UPSTREAM_SET_KEY, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    statement_bind_blob(q, ":key", len ? sealed : NULL, len + STORE_SEALED_EXTRA);
    return statement_run(s, q, &changed, e) &&
           (changed || err_set(e, ERR_NOTFOUND, "there is no such upstream"));
}

static bool insert(struct store *s, const struct store_upstream *u, int64_t *id, struct err *e)
{
    struct err why = {0};
    sqlite3_stmt *q = statement_begin(s, QUERY_UPSTREAM_ADD, e);
    if (!q)
        return false;
    statement_bind_text(q, ":name", u->name);
    statement_bind_text(q, ":dialect", u->dialect);
    statement_bind_text(q, ":url", u->url);
    statement_bind_int(q, ":max_streams", u->max_streams);
    statement_bind_int(q, ":first_byte_ms",
                       u->first_byte_ms ? u->first_byte_ms : STORE_UPSTREAM_FIRST_BYTE_MS);
    statement_bind_int(q, ":idle_ms", u->idle_ms ? u->idle_ms : STORE_UPSTREAM_IDLE_MS);
    statement_bind_int(q, ":now", clock_wall_ms());
    if (statement_int(s, q, id, &why))
        return true;
    if (sqlite3_extended_errcode(s->db) == SQLITE_CONSTRAINT_UNIQUE)
        return err_field(e, ERR_CONFLICT, "name", "there is an upstream of that name already");
    if (e)
        *e = why;
    return false;
}

static bool set_route(struct store *s, const struct store_model_route *r, struct err *e)
{
    struct err why = {0};
    int changed = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_MODEL_ROUTE_SET, &why);
    if (q) {
        statement_bind_int(q, ":model_id", r->model_id);
        statement_bind_int(q, ":upstream_id", r->upstream_id);
        statement_bind_text(q, ":remote", r->remote);
        statement_bind_int(q, ":priority", r->priority);
        statement_bind_int(q, ":weight", r->weight);
    }
    bool ok = q && statement_run(s, q, &changed, &why);
    if (!ok && sqlite3_extended_errcode(s->db) == SQLITE_CONSTRAINT_FOREIGNKEY)
        err_set(&why, ERR_NOTFOUND, "there is no such model or upstream");
    ok = ok && (changed || err_field(&why, ERR_CONFLICT, "models",
                                     "one of these names is a model of this machine"));
    if (!ok && e)
        *e = why;
    return ok;
}

static bool remove_route(struct store *s, int64_t model_id, int64_t upstream_id, struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_MODEL_ROUTE_REMOVE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":model_id", model_id);
    statement_bind_int(q, ":upstream_id", upstream_id);
    return statement_run(s, q, &changed, e) &&
           (changed || err_set(e, ERR_NOTFOUND, "the upstream does not answer for that model"));
}

struct routes { /* of one upstream: which models it answered for */
    int64_t upstream, models[STORE_MODELS_MAX];
    int n;
};

static bool see_route(void *context, const struct store_model_route *r)
{
    struct routes *o = context;
    if (r->upstream_id == o->upstream && o->n < STORE_MODELS_MAX)
        o->models[o->n++] = r->model_id;
    return true;
}

/* The place of the model in the list, or -1. */
static int place(const struct routes *list, int64_t model)
{
    int i = list->n;
    while (--i >= 0 && list->models[i] != model)
        ;
    return i;
}

/* An alias and a name are one model: they are compared by its id. */
static bool add_routes(struct store *s, int64_t upstream, const struct store_route_wishes *w,
                       struct routes *kept, struct err *e)
{
    for (int i = 0; i < w->n; i++) {
        const struct store_route_wish *x = &w->at[i];
        struct store_model_route r = {.upstream_id = upstream,
                                      .remote = x->remote,
                                      .priority = x->priority,
                                      .weight = x->weight};
        if (!models_make(s, x->model, &r.model_id, e))
            return false;
        if (kept->n == STORE_MODELS_MAX || place(kept, r.model_id) >= 0)
            return err_field(e, ERR_INPUT, "models", "'%.100s' is there twice", x->model);
        kept->models[kept->n++] = r.model_id;
        if (!set_route(s, &r, e))
            return false;
    }
    return true;
}

/* These and no others. */
static bool set_routes(struct store *s, int64_t upstream, const struct store_route_wishes *w,
                       struct err *e)
{
    struct routes old = {.upstream = upstream}, kept = {.upstream = upstream};
    if (!w)
        return true;
    if (!store_model_route_list(s, see_route, &old, e) || !add_routes(s, upstream, w, &kept, e))
        return false;
    for (int i = 0; i < old.n; i++)
        if (place(&kept, old.models[i]) < 0 && !remove_route(s, old.models[i], upstream, e))
            return false;
    return true;
}

static bool count_one(void *context, const struct store_upstream *u)
{
    (void)u;
    ++*(int *)context;
    return true;
}

static bool add(struct store *s, const struct store_upstream *u, const char *key, int64_t *id,
                struct err *e)
{
    int n = 0;
    if (!store_upstream_list(s, count_one, &n, e))
        return false;
    if (n >= STORE_UPSTREAMS_MAX)
        return err_set(e, ERR_LIMIT, "there are %d upstreams, and no more can be added", n);
    return insert(s, u, id, e) && (!key || !*key || set_key(s, *id, key, e)) &&
           set_routes(s, *id, u->models, e);
}

bool store_upstream_add(struct store *s, const struct store_upstream *u, const char *key,
                        int64_t *id, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, add(s, u, key, id, e), e);
}

static void bind_given(sqlite3_stmt *q, const char *name, int64_t v)
{
    if (v >= 0)
        statement_bind_int(q, name, v);
}

static bool change(struct store *s, int64_t id, const struct store_upstream_change *c,
                   struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_UPSTREAM_CHANGE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    bind_given(q, ":drained", c->drained);
    bind_given(q, ":max_streams", c->max_streams);
    bind_given(q, ":first_byte_ms", c->first_byte_ms);
    bind_given(q, ":idle_ms", c->idle_ms);
    return statement_run(s, q, &changed, e) &&
           (changed || err_set(e, ERR_NOTFOUND, "there is no such upstream")) &&
           (!c->key || set_key(s, id, c->key, e)) && set_routes(s, id, c->models, e);
}

bool store_upstream_change(struct store *s, int64_t id, const struct store_upstream_change *c,
                           struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, change(s, id, c, e), e);
}

bool store_upstream_serve(struct store *s, int64_t id, const struct store_route_wishes *more,
                          struct err *e)
{
    struct routes added = {.upstream = id};
    return store_write_begin(s, e) && store_write_end(s, add_routes(s, id, more, &added, e), e);
}

static bool remove_row(struct store *s, int64_t id, struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_UPSTREAM_REMOVE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    return statement_run(s, q, &changed, e) &&
           (changed || err_set(e, ERR_NOTFOUND, "there is no such upstream"));
}

bool store_upstream_remove(struct store *s, int64_t id, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, remove_row(s, id, e), e);
}

bool store_upstream_list(struct store *s, store_upstream_fn fn, void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_UPSTREAM_LIST, e);
    int rc = -1;
    while (q && (rc = statement_step(s, q, e)) == 1) {
        const struct store_upstream u = {.id = sqlite3_column_int64(q, 0),
                                         .name = statement_column_text(q, 1),
                                         .dialect = statement_column_text(q, 2),
                                         .url = statement_column_text(q, 3),
                                         .has_key = sqlite3_column_type(q, 4) != SQLITE_NULL,
                                         .drained = sqlite3_column_int(q, 5),
                                         .max_streams = sqlite3_column_int64(q, 6),
                                         .first_byte_ms = sqlite3_column_int64(q, 7),
                                         .idle_ms = sqlite3_column_int64(q, 8),
                                         .created_at = sqlite3_column_int64(q, 9)};
        if (!fn(context, &u))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

/* Into `sealed`, bytes in *len; 0: it has none. */
static bool find_sealed(struct store *s, int64_t id, unsigned char *sealed, size_t *len,
                        struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_UPSTREAM_KEY, e);
    *len = 0;
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    const int rc = statement_step(s, q, e);
    const void *key = rc == 1 ? sqlite3_column_blob(q, 0) : NULL;
    const size_t n = key ? (size_t)sqlite3_column_bytes(q, 0) : 0;
    if (n && n <= STORE_UPSTREAM_KEY_BYTES + STORE_SEALED_EXTRA) {
        memcpy(sealed, key, n);
        *len = n;
    }
    statement_end(q);
    return rc == 1 || (rc == 0 && err_set(e, ERR_NOTFOUND, "there is no such upstream"));
}

bool store_upstream_key(struct store *s, int64_t id, char key[STORE_UPSTREAM_KEY_BYTES + 1],
                        struct err *e)
{
    unsigned char sealed[STORE_UPSTREAM_KEY_BYTES + STORE_SEALED_EXTRA];
    char name[48], text[STORE_UPSTREAM_KEY_BYTES + STORE_SEALED_EXTRA];
    struct store_sealed box = {.bytes = sealed};
    key[0] = 0;
    if (!find_sealed(s, id, sealed, &box.len, e))
        return false;
    if (!box.len)
        return true;
    seal_name(name, id);
    const int opened = store_setting_unseal(s, name, &box, text, e);
    if (opened == 1)
        memcpy(key, text, strlen(text) + 1);
    secret_wipe(text, sizeof text);
    return opened == 1 ||
           (opened == 0 && err_set(e, ERR_FORMAT,
                                   "the upstream's key does not open with this factor.key; set it "
                                   "again"));
}

bool store_model_route_set(struct store *s, const struct store_model_route *r, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, set_route(s, r, e), e);
}

bool store_model_route_remove(struct store *s, int64_t model_id, int64_t upstream_id, struct err *e)
{
    return store_write_begin(s, e) &&
           store_write_end(s, remove_route(s, model_id, upstream_id, e), e);
}

bool store_model_route_list(struct store *s, store_model_route_fn fn, void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_MODEL_ROUTE_LIST, e);
    int rc = -1;
    while (q && (rc = statement_step(s, q, e)) == 1) {
        const struct store_model_route r = {.model_id = sqlite3_column_int64(q, 0),
                                            .upstream_id = sqlite3_column_int64(q, 1),
                                            .remote = statement_column_text(q, 2),
                                            .priority = sqlite3_column_int64(q, 3),
                                            .weight = sqlite3_column_int64(q, 4),
                                            .model = statement_column_text(q, 5),
                                            .upstream = statement_column_text(q, 6)};
        if (!fn(context, &r))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

bool store_upstreams_version(struct store *s, int64_t *version, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_DATA_VERSION, e);
    return q && statement_int(s, q, version, e);
}
