/* store_local_models.h: the second row of a model that lies on this machine. */
#include "sql/models/store_local_models.h"

#include <string.h>

#include "sql/core/statement.h"
#include "sql/core/store.h"
#include "sql/models/models_internal.h"

static bool check_texts(const char *defaults, const char *device, struct err *e)
{
    if (defaults && strlen(defaults) > STORE_LOCAL_DEFAULTS_BYTES)
        return err_field(e, ERR_INPUT, "defaults", "is longer than %d bytes",
                         STORE_LOCAL_DEFAULTS_BYTES);
    if (device && strlen(device) > STORE_LOCAL_DEVICE_BYTES)
        return err_field(e, ERR_INPUT, "device", "is longer than %d bytes",
                         STORE_LOCAL_DEVICE_BYTES);
    return true;
}

static bool check(const struct store_model *m, struct err *e)
{
    const size_t n = m->path ? strlen(m->path) : 0;
    if (!n || n > STORE_LOCAL_PATH_BYTES || m->path[0] != '/')
        return err_field(e, ERR_INPUT, "path", "must be a whole path of at most %d bytes",
                         STORE_LOCAL_PATH_BYTES);
    return check_texts(m->defaults, m->device, e);
}

static bool add_place(struct store *s, const struct store_model *m, int64_t id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_LOCAL_MODEL_ADD, e);
    if (!q)
        return false;
    statement_bind_int(q, ":model_id", id);
    statement_bind_text(q, ":path", m->path);
    statement_bind_int(q, ":pinned", m->pinned);
    statement_bind_int(q, ":preload", m->preload);
    statement_bind_int(q, ":idle_s", m->idle_s);
    statement_bind_text(q, ":defaults", m->defaults && *m->defaults ? m->defaults : NULL);
    statement_bind_text(q, ":device", m->device && *m->device ? m->device : NULL);
    return statement_run(s, q, NULL, e);
}

static bool add(struct store *s, const struct store_model *m, int64_t *id, struct err *e)
{
    int64_t n = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_LOCAL_MODEL_COUNT, e);
    if (!q || !statement_int(s, q, &n, e))
        return false;
    if (n >= STORE_LOCAL_MODELS_MAX)
        return err_set(e, ERR_LIMIT,
                       "there are %d models of this machine, and no more can be added", (int)n);
    return models_add(s, m, id, e) && add_place(s, m, *id, e);
}

bool store_local_model_add(struct store *s, const struct store_model *m, int64_t *id, struct err *e)
{
    return check(m, e) && store_write_begin(s, e) && store_write_end(s, add(s, m, id, e), e);
}

static void bind_given(sqlite3_stmt *q, const char *name, int64_t v)
{
    if (v >= 0)
        statement_bind_int(q, name, v);
}

bool models_change_local(struct store *s, int64_t id, const struct store_model_change *c,
                         struct err *e)
{
    int changed = 0;
    const char *field = c->pinned >= 0    ? "pinned"
                        : c->preload >= 0 ? "preload"
                        : c->idle_s >= 0  ? "idle_s"
                        : c->defaults     ? "defaults"
                        : c->device       ? "device"
                                          : NULL;
    if (!field)
        return true;
    if (!check_texts(c->defaults, c->device, e))
        return false;
    sqlite3_stmt *q = statement_begin(s, QUERY_LOCAL_MODEL_CHANGE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":model_id", id);
    bind_given(q, ":pinned", c->pinned);
    bind_given(q, ":preload", c->preload);
    bind_given(q, ":idle_s", c->idle_s);
    statement_bind_text(q, ":defaults", c->defaults);
    statement_bind_text(q, ":device", c->device);
    return statement_run(s, q, &changed, e) &&
           (changed ||
            err_field(e, ERR_INPUT, field, "is of models that run on this machine only"));
}
