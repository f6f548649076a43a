/* store_models.h: the rows of models. Whether a user may use one is part of each statement. */
#include "sql/models/store_models.h"

#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "sql/core/access_cache.h"
#include "sql/core/statement.h"
#include "sql/core/store.h"
#include "sql/models/models_internal.h"

static bool check_name(const char *name, const char *field, struct err *e)
{
    const size_t n = name ? strlen(name) : 0;
    if (!n || n > STORE_MODEL_NAME_BYTES)
        return err_field(e, ERR_INPUT, field, "must have 1 to %d bytes", STORE_MODEL_NAME_BYTES);
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7f)
            return err_field(e, ERR_INPUT, field,
                             "must have neither blanks nor control characters");
    return true;
}

static bool taken(struct store *s, const char *field, const struct err *why, struct err *e)
{
    const int code = sqlite3_extended_errcode(s->db);
    if (code == SQLITE_CONSTRAINT_UNIQUE || code == SQLITE_CONSTRAINT_PRIMARYKEY)
        return err_field(e, ERR_CONFLICT, field, "a model is called that already");
    if (e)
        *e = *why;
    return false;
}

static bool count_one(void *context, const struct store_model *m)
{
    (void)m;
    ++*(int *)context;
    return true;
}

bool models_add(struct store *s, const struct store_model *m, int64_t *id, struct err *e)
{
    struct err why = {0};
    int n = 0;
    if (!check_name(m->name, "name", e))
        return false;
    if (!store_model_list(s, 0, count_one, &n, e))
        return false;
    if (n >= STORE_MODELS_MAX)
        return err_set(e, ERR_LIMIT, "there are %d models, and no more can be added", n);
    sqlite3_stmt *q = statement_begin(s, QUERY_MODEL_ADD, e);
    if (!q)
        return false;
    statement_bind_text(q, ":name", m->name);
    statement_bind_text(q, ":kind", m->kind ? m->kind : "chat");
    statement_bind_int(q, ":context", m->context);
    statement_bind_int(q, ":tools", m->tools);
    statement_bind_int(q, ":vision", m->vision);
    statement_bind_int(q, ":reasoning", m->reasoning);
    statement_bind_int(q, ":everyone", m->everyone);
    statement_bind_int(q, ":now", clock_wall_ms());
    return statement_int(s, q, id, &why) || taken(s, "name", &why, e);
}

bool store_model_add(struct store *s, const struct store_model *m, int64_t *id, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, models_add(s, m, id, e), e);
}

static bool clear(struct store *s, enum query which, int64_t id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (!q)
        return false;
    statement_bind_int(q, ":model_id", id);
    return statement_run(s, q, NULL, e);
}

static bool set_aliases(struct store *s, int64_t id, const struct store_model_names *names,
                        struct err *e)
{
    struct err why = {0};
    if (!clear(s, QUERY_MODEL_ALIAS_CLEAR, id, e))
        return false;
    for (int i = 0; i < names->n; i++) {
        sqlite3_stmt *q = check_name(names->at[i], "aliases", e)
                              ? statement_begin(s, QUERY_MODEL_ALIAS_ADD, e)
                              : NULL;
        if (!q)
            return false;
        statement_bind_text(q, ":alias", names->at[i]);
        statement_bind_int(q, ":model_id", id);
        if (!statement_run(s, q, NULL, &why))
            return taken(s, "aliases", &why, e);
    }
    return true;
}

static bool set_users(struct store *s, int64_t id, const struct store_model_change *c,
                      struct err *e)
{
    if (!clear(s, QUERY_MODEL_USER_CLEAR, id, e))
        return false;
    for (int i = 0; i < c->n_users; i++) {
        int changed = 0;
        sqlite3_stmt *q = statement_begin(s, QUERY_MODEL_USER_ADD, e);
        if (!q)
            return false;
        statement_bind_int(q, ":model_id", id);
        statement_bind_int(q, ":user_id", c->users[i]);
        if (!statement_run(s, q, &changed, e))
            return false;
        if (!changed)
            return err_field(e, ERR_INPUT, "users", "%lld is no user", (long long)c->users[i]);
    }
    return true;
}

static bool set_groups(struct store *s, int64_t id, const struct store_model_change *c,
                       struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_MODEL_GROUP_CLEAR, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    if (!statement_run(s, q, NULL, e))
        return false;
    for (int i = 0; i < c->n_groups; i++) {
        int changed = 0;
        if (!(q = statement_begin(s, QUERY_MODEL_GROUP_ADD, e)))
            return false;
        statement_bind_int(q, ":model_id", id);
        statement_bind_int(q, ":group_id", c->groups[i]);
        if (!statement_run(s, q, &changed, e))
            return sqlite3_errcode(s->db) == SQLITE_CONSTRAINT
                       ? err_field(e, ERR_INPUT, "groups", "names one twice")
                       : false;
        if (!changed)
            return err_field(e, ERR_INPUT, "groups", "%lld is no group", (long long)c->groups[i]);
    }
    return true;
}

static void bind_given(sqlite3_stmt *q, const char *name, int64_t v)
{
    if (v >= 0)
        statement_bind_int(q, name, v);
}

static bool change(struct store *s, int64_t id, const struct store_model_change *c, struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_MODEL_CHANGE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    bind_given(q, ":context", c->context);
    bind_given(q, ":tools", c->tools);
    bind_given(q, ":vision", c->vision);
    bind_given(q, ":reasoning", c->reasoning);
    bind_given(q, ":everyone", c->everyone);
    return statement_run(s, q, &changed, e) &&
           (changed || err_set(e, ERR_NOTFOUND, "there is no such model")) &&
           models_change_local(s, id, c, e) && (!c->aliases || set_aliases(s, id, c->aliases, e)) &&
           (!c->users || set_users(s, id, c, e)) && (!c->groups || set_groups(s, id, c, e));
}

bool store_model_change(struct store *s, int64_t id, const struct store_model_change *c,
                        struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, change(s, id, c, e), e);
}

bool store_model_remove(struct store *s, int64_t id, struct err *e)
{
    int changed = 0;
    if (!store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = statement_begin(s, QUERY_MODEL_REMOVE, e);
    if (q)
        statement_bind_int(q, ":id", id);
    bool ok = q && statement_run(s, q, &changed, e) &&
              (changed || err_set(e, ERR_NOTFOUND, "there is no such model"));
    return store_write_end(s, ok, e);
}

/* Texts are SQLite's, until the next step. */
static struct store_model borrow(sqlite3_stmt *q)
{
    return (struct store_model){.id = sqlite3_column_int64(q, 0),
                                .name = statement_column_text(q, 1),
                                .kind = statement_column_text(q, 2),
                                .context = sqlite3_column_int64(q, 3),
                                .tools = sqlite3_column_int(q, 4),
                                .vision = sqlite3_column_int(q, 5),
                                .reasoning = sqlite3_column_int(q, 6),
                                .everyone = sqlite3_column_int(q, 7),
                                .created_at = sqlite3_column_int64(q, 8),
                                .aliases = statement_column_text(q, 9),
                                .path = statement_column_optional(q, 10),
                                .pinned = sqlite3_column_int(q, 11),
                                .preload = sqlite3_column_int(q, 12),
                                .idle_s = sqlite3_column_int64(q, 13),
                                .defaults = statement_column_optional(q, 14),
                                .groups = statement_column_text(q, 15),
                                .device = statement_column_optional(q, 16)};
}

/* Who asks, and for what. One that is too long for the bytes is never found. */
static struct access_name name_of(const struct store_model_ask *ask, char bytes[ACCESS_NAME_BYTES])
{
    const size_t n = strlen(ask->name), id = sizeof ask->user_id;
    memcpy(bytes, &ask->user_id, id);
    if (n <= ACCESS_NAME_BYTES - id)
        memcpy(bytes + id, ask->name, n);
    return (struct access_name){.kind = ACCESS_MODEL, .after = true, .bytes = bytes, .len = id + n};
}

/* The texts that store_model_find gives; kept one behind the other, each with its NUL. */
#define TEXTS 5

static void list_texts(struct store_model *m, const char **at[TEXTS])
{
    const char **const all[TEXTS] = {&m->name, &m->kind, &m->aliases, &m->path, &m->defaults};
    memcpy(at, all, sizeof all);
}

static bool recall(struct store *s, struct arena *a, const struct access_name *name,
                   struct store_model *out)
{
    const char **at[TEXTS];
    const struct store_model *kept = access_cache_get(s, name);
    if (!kept)
        return false;
    *out = *kept;
    list_texts(out, at);
    const char *text = (const char *)(kept + 1);
    for (int i = 0; i < TEXTS; i++) {
        if (!*at[i])
            continue;
        *at[i] = arena_strdup(a, text);
        if (!*at[i])
            return false;
        text += strlen(text) + 1;
    }
    return true;
}

static void keep(struct store *s, const struct access_name *name, const struct store_model *m)
{
    struct store_model copy = *m;
    struct buf b = {0};
    const char **at[TEXTS];
    list_texts(&copy, at);
    buf_append(&b, &copy, sizeof copy); /* a text that is there has an address, which says so */
    for (int i = 0; i < TEXTS; i++)
        if (*at[i])
            buf_append(&b, *at[i], strlen(*at[i]) + 1);
    if (!b.failed)
        access_cache_put(s, name, b.data, b.len);
    buf_fini(&b);
}

static bool read_model(struct store *s, struct arena *a, const struct store_model_ask *ask,
                       struct store_model *out, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_MODEL_FIND, e);
    if (!q)
        return false;
    statement_bind_text(q, ":name", ask->name);
    statement_bind_id(q, ":user_id", ask->user_id);
    const int rc = statement_step(s, q, e);
    bool ok = rc == 1 || (rc == 0 && err_set(e, ERR_NOTFOUND, "there is no such model"));
    if (ok) {
        *out = borrow(q);
        ok = statement_column_copy(q, 1, a, &out->name, e) &&
             statement_column_copy(q, 2, a, &out->kind, e) &&
             statement_column_copy(q, 9, a, &out->aliases, e) &&
             (!out->path || statement_column_copy(q, 10, a, &out->path, e)) &&
             (!out->defaults || statement_column_copy(q, 14, a, &out->defaults, e));
        out->groups = out->device = NULL;
    }
    statement_end(q);
    return ok;
}

bool store_model_find(struct store *s, struct arena *a, const struct store_model_ask *ask,
                      struct store_model *out, struct err *e)
{
    char bytes[ACCESS_NAME_BYTES];
    const struct access_name name = name_of(ask, bytes);
    if (recall(s, a, &name, out))
        return true;
    if (!read_model(s, a, ask, out, e))
        return false;
    keep(s, &name, out);
    return true;
}

bool store_model_list(struct store *s, int64_t user_id, store_model_fn fn, void *context,
                      struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_MODEL_LIST, e);
    int rc = -1;
    if (q)
        statement_bind_id(q, ":user_id", user_id);
    while (q && (rc = statement_step(s, q, e)) == 1) {
        const struct store_model m = borrow(q);
        if (!fn(context, &m))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

bool store_model_users(struct store *s, int64_t model_id, store_model_user_fn fn, void *context,
                       struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_MODEL_USER_LIST, e);
    int rc = -1;
    if (q)
        statement_bind_int(q, ":model_id", model_id);
    while (q && (rc = statement_step(s, q, e)) == 1)
        if (!fn(context, sqlite3_column_int64(q, 0)))
            break;
    statement_end(q);
    return rc >= 0;
}

bool models_make(struct store *s, const char *name, int64_t *id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_MODEL_FIND, e);
    if (!q)
        return false;
    statement_bind_text(q, ":name", name);
    statement_bind_id(q, ":user_id", 0);
    const int rc = statement_step(s, q, e);
    if (rc == 1)
        *id = borrow(q).id;
    statement_end(q);
    const struct store_model made = {.name = name, .tools = true, .everyone = true};
    return rc == 1 || (rc == 0 && check_name(name, "models", e) && models_add(s, &made, id, e));
}
