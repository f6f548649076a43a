/* store_tool_servers.h: rows of servers and permissions. The header's value is sealed under a name
 * that holds owner and url: a row that was changed to lead elsewhere does not open. */
#include "sql/tools/store_tool_servers.h"

#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "sql/core/server_internal.h"
#include "sql/core/statement.h"
#include "sql/tools/tools_internal.h"
#include "sql/users/store_groups.h"

/* Columns of @tool_server_columns. */
enum column {
    C_ID,
    C_USER,
    C_NAME,
    C_URL,
    C_HEADER,
    C_SEALED,
    C_ENABLED,
    C_TOOLS,
    C_LISTED,
    C_CREATED,
    C_ALLOWED,
    C_EVERYONE,
    C_GROUPS,
    C_CLIENT,
    C_CLIENT_SECRET,
    C_ACCOUNT,
    C_WANTED
};

static void borrow(sqlite3_stmt *q, struct store_tool_server *x)
{
    *x = (struct store_tool_server){
        .id = sqlite3_column_int64(q, C_ID),
        .user_id = sqlite3_column_int64(q, C_USER),
        .name = statement_column_text(q, C_NAME),
        .url = statement_column_text(q, C_URL),
        .header = statement_column_text(q, C_HEADER),
        .sealed = {sqlite3_column_blob(q, C_SEALED), (size_t)sqlite3_column_bytes(q, C_SEALED)},
        .enabled = sqlite3_column_int(q, C_ENABLED) != 0,
        .tools = statement_column_text(q, C_TOOLS),
        .allowed = statement_column_text(q, C_ALLOWED),
        .everyone = sqlite3_column_int(q, C_EVERYONE) != 0,
        .groups = statement_column_text(q, C_GROUPS),
        .listed_at = sqlite3_column_int64(q, C_LISTED),
        .created_at = sqlite3_column_int64(q, C_CREATED),
        .client_id = statement_column_optional(q, C_CLIENT),
        .has_client_secret = sqlite3_column_int(q, C_CLIENT_SECRET) != 0,
        .account = statement_column_optional(q, C_ACCOUNT),
        .wanted = statement_column_optional(q, C_WANTED),
    };
}

static bool keep(sqlite3_stmt *q, struct arena *a, struct store_tool_server *x, struct err *e)
{
    if (x->sealed.bytes && !(x->sealed.bytes = (const unsigned char *)arena_copy(
                                 a, (const char *)x->sealed.bytes, x->sealed.len)))
        return err_set(e, ERR_NOMEM, "no memory for a tool server");
    return statement_column_copy(q, C_NAME, a, &x->name, e) &&
           statement_column_copy(q, C_URL, a, &x->url, e) &&
           statement_column_copy(q, C_HEADER, a, &x->header, e) &&
           statement_column_copy(q, C_TOOLS, a, &x->tools, e) &&
           statement_column_copy(q, C_ALLOWED, a, &x->allowed, e) &&
           statement_column_copy(q, C_GROUPS, a, &x->groups, e) &&
           statement_column_copy(q, C_CLIENT, a, &x->client_id, e) &&
           statement_column_copy(q, C_ACCOUNT, a, &x->account, e) &&
           statement_column_copy(q, C_WANTED, a, &x->wanted, e);
}

bool store_tool_server_list(struct store *s, int64_t user_id, store_tool_server_fn fn,
                            void *context, struct err *e)
{
    struct store_tool_server x;
    int rc;
    sqlite3_stmt *q = statement_begin(s, QUERY_TOOL_SERVER_LIST, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    while ((rc = statement_step(s, q, e)) == 1) {
        borrow(q, &x);
        if (!fn(context, &x))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

static sqlite3_stmt *begin_one(struct store *s, enum query which, const struct store_ref *server,
                               struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (q) {
        statement_bind_int(q, ":user_id", server->user_id);
        statement_bind_int(q, ":id", server->id);
    }
    return q;
}

/* Ends q, which may be NULL. */
static bool take_one(struct store *s, sqlite3_stmt *q, struct arena *a,
                     struct store_tool_server *out, struct err *e)
{
    if (!q)
        return false;
    int rc = statement_step(s, q, e);
    bool ok = rc == 0 && err_set(e, ERR_NOTFOUND, "there is no such tool server");
    if (rc == 1) {
        borrow(q, out);
        ok = keep(q, a, out, e);
    }
    statement_end(q);
    return ok;
}

bool store_tool_server_get(struct store *s, struct arena *a, const struct store_ref *server,
                           struct store_tool_server *out, struct err *e)
{
    return take_one(s, begin_one(s, QUERY_TOOL_SERVER_GET, server, e), a, out, e);
}

bool store_tool_server_signed(struct store *s, struct arena *a, const struct store_ref *server,
                              struct store_tool_server *out, struct err *e)
{
    return take_one(s, begin_one(s, QUERY_TOOL_SERVER_SIGNED, server, e), a, out, e);
}

static bool name_free(struct store *s, const struct store_tool_server *x, struct err *e)
{
    int64_t n = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_TOOL_SERVER_NAMED, e);
    if (!q)
        return false;
    statement_bind_text(q, ":name", x->name);
    statement_bind_int(q, ":id", x->id);
    statement_bind_id(q, ":user_id", x->user_id);
    if (!statement_int(s, q, &n, e))
        return false;
    return !n || err_field(e, ERR_CONFLICT, "name", "another tool server has this name") ||
           err_reason(e, "tool_server_exists");
}

/* What a value is sealed under. NULL: no memory. */
static char *seal_name(struct arena *a, const struct store_tool_server *x)
{
    return arena_printf(a, "tool %lld %s", (long long)x->user_id, x->url);
}

/* *out in the arena; its bytes are NULL without a secret. */
static bool seal(struct store *s, struct arena *a, const struct store_tool_server *x,
                 const char *secret, struct store_sealed *out, struct err *e)
{
    *out = (struct store_sealed){0};
    if (!secret || !*secret)
        return true;
    const size_t len = strlen(secret) + STORE_SEALED_EXTRA;
    unsigned char *bytes = arena_alloc(a, len);
    const char *name = seal_name(a, x);
    if (!bytes || !name)
        return err_set(e, ERR_NOMEM, "no memory for a secret");
    *out = (struct store_sealed){bytes, len};
    return store_setting_seal(s, name, secret, bytes, e);
}

static void bind(sqlite3_stmt *q, const struct store_tool_server *x,
                 const struct store_sealed *sealed)
{
    statement_bind_id(q, ":user_id", x->user_id);
    statement_bind_text(q, ":name", x->name);
    statement_bind_text(q, ":url", x->url);
    statement_bind_text(q, ":header", x->header);
    statement_bind_blob(q, ":sealed", sealed->bytes, sealed->len);
    statement_bind_text(q, ":tools", x->tools);
}

static bool set_groups(struct store *s, int64_t id, const struct store_ids *groups, struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_TOOL_SERVER_OPEN, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    statement_bind_int(q, ":everyone", groups == NULL);
    if (!statement_run(s, q, &changed, e) ||
        !(changed || err_set(e, ERR_NOTFOUND, "there is no such tool server")) ||
        !(q = statement_begin(s, QUERY_TOOL_GROUP_CLEAR, e)))
        return false;
    statement_bind_int(q, ":id", id);
    bool ok = statement_run(s, q, NULL, e);
    for (int i = 0; ok && groups && i < groups->n; i++) {
        if (!(q = statement_begin(s, QUERY_TOOL_GROUP_ADD, e)))
            return false;
        statement_bind_int(q, ":server_id", id);
        statement_bind_int(q, ":group_id", groups->at[i]);
        ok = statement_run(s, q, &changed, e);
        if (!ok && sqlite3_errcode(s->db) == SQLITE_CONSTRAINT)
            return err_field(e, ERR_INPUT, "groups", "names one twice");
        if (ok && !changed)
            return err_field(e, ERR_INPUT, "groups", "%lld is no group", (long long)groups->at[i]);
    }
    return ok && server_forget_unseen(s, e);
}

static bool insert(struct store *s, const struct store_tool_server *x,
                   const struct store_sealed *sealed, int64_t *id, struct err *e)
{
    struct err why = {0};
    sqlite3_stmt *q = name_free(s, x, e) ? statement_begin(s, QUERY_TOOL_SERVER_ADD, e) : NULL;
    if (!q)
        return false;
    bind(q, x, sealed);
    statement_bind_int(q, ":most", STORE_TOOL_SERVERS_MAX);
    statement_bind_int(q, ":listed_at", x->listed_at);
    statement_bind_int(q, ":now", clock_wall_ms());
    if (statement_int(s, q, id, &why))
        return !x->only || set_groups(s, *id, x->only, e);
    return why.code == ERR_NOTFOUND
               ? err_set(e, ERR_LIMIT, "at most %d tool servers are kept", STORE_TOOL_SERVERS_MAX)
               : err_set(e, why.code, "%s", why.text);
}

bool store_tool_server_add(struct store *s, const struct store_tool_server *server,
                           const char *secret, int64_t *id, struct err *e)
{
    struct store_sealed sealed;
    struct arena *a = arena_create(0);
    bool ok = a ? seal(s, a, server, secret, &sealed, e)
                : err_set(e, ERR_NOMEM, "no memory for a tool server");
    ok = ok && store_write_begin(s, e) && store_write_end(s, insert(s, server, &sealed, id, e), e);
    arena_destroy(&a);
    return ok;
}

static bool keep_permissions(struct store *s, int64_t id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_TOOL_PERMISSIONS_KEEP, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", id);
    return statement_run(s, q, NULL, e);
}

static bool changed_meanwhile(struct err *e)
{
    return err_set(e, ERR_CONFLICT, "the tool server was changed or removed meanwhile") ||
           err_reason(e, "tool_server_changed");
}

/* Only over the row as it was read: asking the server takes its time. */
static bool update(struct store *s, const struct store_tool_server *was,
                   const struct store_tool_server *x, const struct store_sealed *sealed,
                   struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = name_free(s, x, e) ? statement_begin(s, QUERY_TOOL_SERVER_CHANGE, e) : NULL;
    if (!q)
        return false;
    bind(q, x, sealed);
    statement_bind_int(q, ":id", x->id);
    statement_bind_int(q, ":enabled", x->enabled);
    statement_bind_int(q, ":listed_at", x->listed_at);
    statement_bind_text(q, ":was_name", was->name);
    statement_bind_text(q, ":was_url", was->url);
    statement_bind_text(q, ":was_header", was->header);
    statement_bind_blob(q, ":was_sealed", was->sealed.bytes, was->sealed.len);
    statement_bind_int(q, ":was_enabled", was->enabled);
    statement_bind_int(q, ":was_listed_at", was->listed_at);
    if (!statement_run(s, q, &changed, e))
        return false;
    if (!changed)
        return changed_meanwhile(e);
    return keep_permissions(s, x->id, e) &&
           (!strcmp(was->url, x->url) || tool_oauth_forget(s, x->id, e));
}

static bool relist(struct store *s, const struct store_tool_server *x, struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_TOOL_SERVER_RELIST, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", x->id);
    statement_bind_id(q, ":user_id", x->user_id);
    statement_bind_text(q, ":name", x->name);
    statement_bind_text(q, ":url", x->url);
    statement_bind_text(q, ":header", x->header);
    statement_bind_text(q, ":tools", x->tools);
    statement_bind_int(q, ":listed_at", x->listed_at);
    if (!statement_run(s, q, &changed, e))
        return false;
    return changed ? keep_permissions(s, x->id, e) : changed_meanwhile(e);
}

bool store_tool_server_relist(struct store *s, const struct store_tool_server *server,
                              struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, relist(s, server, e), e);
}

bool store_tool_server_change(struct store *s, const struct store_tool_server *was,
                              const struct store_tool_server *server, const char *secret,
                              struct err *e)
{
    struct store_sealed sealed = server->sealed;
    struct arena *a = arena_create(0);
    bool ok = a != NULL || err_set(e, ERR_NOMEM, "no memory for a tool server");
    ok = ok && (!secret || seal(s, a, server, secret, &sealed, e)) && store_write_begin(s, e) &&
         store_write_end(s, update(s, was, server, &sealed, e), e);
    arena_destroy(&a);
    return ok;
}

/* One statement in a transaction of its own; `none`: what it is when it changes no row, or NULL. */
static bool run(struct store *s, sqlite3_stmt *q, const char *none, struct err *e)
{
    int changed = 0;
    bool ok = q && statement_run(s, q, &changed, e);
    if (ok && !changed && none)
        ok = err_set(e, ERR_NOTFOUND, "%s", none);
    return store_write_end(s, ok, e);
}

bool store_tool_server_remove(struct store *s, const struct store_ref *server, struct err *e)
{
    if (!store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = statement_begin(s, QUERY_TOOL_SERVER_REMOVE, e);
    if (q) {
        statement_bind_int(q, ":id", server->id);
        statement_bind_id(q, ":user_id", server->user_id);
    }
    return run(s, q, "there is no such tool server", e);
}

bool store_tool_server_set_groups(struct store *s, int64_t id, const struct store_ids *groups,
                                  struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, set_groups(s, id, groups, e), e);
}

bool store_tool_server_secret(struct store *s, struct arena *a,
                              const struct store_tool_server *server, const char **out,
                              struct err *e)
{
    *out = NULL;
    if (!server->sealed.bytes)
        return true;
    char *secret = arena_alloc(a, server->sealed.len + 1);
    const char *name = seal_name(a, server);
    if (!secret || !name)
        return err_set(e, ERR_NOMEM, "no memory for a secret");
    const int rc = store_setting_unseal(s, name, &server->sealed, secret, e);
    if (rc < 0)
        return false;
    *out = secret;
    return rc == 1 ||
           err_set(e, ERR_UNAVAILABLE, "the tool server's secret can't be opened: save it again") ||
           err_reason(e, "tool_secret");
}

static sqlite3_stmt *begin_permission(struct store *s, enum query which,
                                      const struct store_tool_permission *p, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (q) {
        statement_bind_int(q, ":user_id", p->user_id);
        statement_bind_int(q, ":id", p->server_id);
        statement_bind_text(q, ":tool", p->tool);
    }
    return q;
}

bool store_tool_permission_add(struct store *s, const struct store_tool_permission *p,
                               struct err *e)
{
    if (!store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = begin_permission(s, QUERY_TOOL_PERMISSION_ADD, p, e);
    if (q) {
        statement_bind_text(q, ":definition", p->definition);
        statement_bind_int(q, ":now", clock_wall_ms());
    }
    return run(s, q, "there is no such tool server", e);
}

bool store_tool_permission_find(struct store *s, const struct store_tool_permission *p,
                                bool *allowed, struct err *e)
{
    sqlite3_stmt *q = begin_permission(s, QUERY_TOOL_PERMISSION_FIND, p, e);
    if (!q)
        return false;
    int rc = statement_step(s, q, e);
    *allowed = rc == 1 && !strcmp(statement_column_text(q, 0), p->definition);
    statement_end(q);
    return rc >= 0;
}

bool store_tool_permission_remove(struct store *s, const struct store_tool_permission *p,
                                  struct err *e)
{
    return store_write_begin(s, e) &&
           run(s, begin_permission(s, QUERY_TOOL_PERMISSION_REMOVE, p, e), NULL, e);
}
