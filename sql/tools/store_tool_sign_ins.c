/* store_tool_sign_ins.h: three small tables; what is sealed says in its name where it may go. */
#include "sql/tools/store_tool_sign_ins.h"

#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "sql/core/statement.h"
#include "sql/tools/tools_internal.h"

/* Copies a sealed column and opens it. *out NULL: there is none, or it does not open. */
static bool unseal(struct store *s, struct arena *a, sqlite3_stmt *q, int column, const char *name,
                   const char **out, struct err *e)
{
    const struct store_sealed sealed = {sqlite3_column_blob(q, column),
                                        (size_t)sqlite3_column_bytes(q, column)};
    *out = NULL;
    if (!sealed.bytes)
        return true;
    char *text = name ? arena_alloc(a, sealed.len + 1) : NULL;
    if (!text)
        return err_set(e, ERR_NOMEM, "no memory for a secret");
    const int rc = store_setting_unseal(s, name, &sealed, text, e);
    if (rc == 1)
        *out = text;
    return rc >= 0;
}

/* In the arena. NULL: *e. */
static const unsigned char *seal(struct store *s, struct arena *a, const char *name,
                                 const char *secret, struct err *e)
{
    unsigned char *bytes = name ? arena_alloc(a, strlen(secret) + STORE_SEALED_EXTRA) : NULL;
    if (!bytes)
        err_set(e, ERR_NOMEM, "no memory for a secret");
    return bytes && store_setting_seal(s, name, secret, bytes, e) ? bytes : NULL;
}

static bool moved(struct err *e)
{
    return err_set(e, ERR_CONFLICT, "the tool server was changed or removed meanwhile") ||
           err_reason(e, "tool_server_changed");
}

/* One statement in a transaction of its own. */
static bool run(struct store *s, sqlite3_stmt *q, int *changed, struct err *e)
{
    return store_write_end(s, q && statement_run(s, q, changed, e), e);
}

/* --- the client --- */

/* Its secret is good for one issuer; before the first sign-in nobody knows which. */
static const char *client_name(struct arena *a, const struct store_tool_server *server,
                               const char *client_id)
{
    return arena_printf(a, "tool client %lld %s %s", (long long)server->id, server->url, client_id);
}

bool store_tool_client_get(struct store *s, struct arena *a, const struct store_tool_server *server,
                           struct store_tool_client *out, struct err *e)
{
    *out = (struct store_tool_client){0};
    sqlite3_stmt *q = statement_begin(s, QUERY_TOOL_OAUTH_GET, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", server->id);
    const int rc = statement_step(s, q, e);
    bool ok = rc >= 0;
    if (rc == 1) {
        out->typed = sqlite3_column_int(q, 0) != 0;
        ok = statement_column_copy(q, 1, a, &out->client_id, e) &&
             statement_column_copy(q, 3, a, &out->issuer, e) &&
             statement_column_copy(q, 4, a, &out->redirect_uri, e) &&
             unseal(s, a, q, 2, client_name(a, server, out->client_id), &out->secret, e);
        out->secret_expires_at = sqlite3_column_int64(q, 5);
    }
    statement_end(q);
    return ok;
}

static bool put_client(struct store *s, struct arena *a, const struct store_tool_server *server,
                       const struct store_tool_client *const pair[2], struct err *e)
{
    const struct store_tool_client *was = pair[0], *x = pair[1];
    int changed = 0;
    const unsigned char *sealed =
        x->secret ? seal(s, a, client_name(a, server, x->client_id), x->secret, e) : NULL;
    if ((x->secret && !sealed) || !store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = statement_begin(s, QUERY_TOOL_OAUTH_PUT, e);
    if (q) {
        statement_bind_int(q, ":id", server->id);
        statement_bind_text(q, ":url", server->url);
        statement_bind_int(q, ":typed", x->typed);
        statement_bind_text(q, ":client_id", x->client_id);
        statement_bind_text(q, ":issuer", x->issuer ? x->issuer : "");
        statement_bind_text(q, ":redirect_uri", x->redirect_uri ? x->redirect_uri : "");
        statement_bind_text(q, ":was_client_id", was ? was->client_id : NULL);
        statement_bind_text(q, ":was_issuer", was ? was->issuer : NULL);
        statement_bind_int(q, ":secret_expires_at", x->secret_expires_at);
        statement_bind_blob(q, ":sealed", sealed,
                            x->secret ? strlen(x->secret) + STORE_SEALED_EXTRA : 0);
    }
    return run(s, q, &changed, e) && (changed || moved(e));
}

bool store_tool_client_put(struct store *s, const struct store_tool_server *server,
                           const struct store_tool_client *was,
                           const struct store_tool_client *client, struct err *e)
{
    struct arena *a = arena_create(0);
    const struct store_tool_client *const pair[2] = {was, client};
    const bool ok =
        a ? put_client(s, a, server, pair, e) : err_set(e, ERR_NOMEM, "no memory for a client");
    arena_destroy(&a);
    return ok;
}

bool store_tool_client_bind(struct store *s, const struct store_tool_server *server,
                            const struct store_tool_client *client, struct err *e)
{
    int changed = 0;
    if (!store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = statement_begin(s, QUERY_TOOL_OAUTH_BIND, e);
    if (q) {
        statement_bind_int(q, ":id", server->id);
        statement_bind_text(q, ":url", server->url);
        statement_bind_text(q, ":client_id", client->client_id);
        statement_bind_text(q, ":issuer", client->issuer);
    }
    return run(s, q, &changed, e) && (changed || moved(e));
}

bool tool_oauth_forget(struct store *s, int64_t server_id, struct err *e)
{
    static const enum query steps[] = {QUERY_TOOL_OAUTH_REMOVE, QUERY_TOOL_SIGN_INS_FORGET,
                                       QUERY_TOOL_FLOWS_FORGET};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        sqlite3_stmt *q = statement_begin(s, steps[i], e);
        if (!q)
            return false;
        statement_bind_int(q, ":id", server_id);
        if (!statement_run(s, q, NULL, e))
            return false;
    }
    return true;
}

bool store_tool_client_remove(struct store *s, int64_t server_id, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, tool_oauth_forget(s, server_id, e), e);
}

/* --- who is signed in --- */

static const char *tokens_name(struct arena *a, const struct store_tool_server *server,
                               int64_t user_id, const char *about)
{
    return arena_printf(a, "tool tokens %lld %lld %s %s", (long long)user_id, (long long)server->id,
                        server->url, about);
}

static sqlite3_stmt *begin(struct store *s, enum query which, int64_t server_id, int64_t user_id,
                           struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (q) {
        statement_bind_int(q, ":id", server_id);
        statement_bind_int(q, ":user_id", user_id);
    }
    return q;
}

bool store_tool_sign_in_get(struct store *s, struct arena *a,
                            const struct store_tool_server *server, int64_t user_id,
                            struct store_tool_sign_in *out, struct err *e)
{
    *out = (struct store_tool_sign_in){.user_id = user_id};
    sqlite3_stmt *q = begin(s, QUERY_TOOL_SIGN_IN_GET, server->id, user_id, e);
    if (!q)
        return false;
    const int rc = statement_step(s, q, e);
    bool ok = rc >= 0;
    if (rc == 1) {
        const char *about = NULL;
        out->expires_at = sqlite3_column_int64(q, 2);
        out->version = sqlite3_column_int64(q, 3);
        ok = statement_column_copy(q, 0, a, &about, e) &&
             statement_column_copy(q, 4, a, &out->wanted, e) &&
             unseal(s, a, q, 1, tokens_name(a, server, user_id, about), &out->tokens, e);
        if (out->tokens)
            out->about = about;
    }
    statement_end(q);
    return ok;
}

/* Binds the tokens, sealed. */
static bool bind_tokens(struct store *s, sqlite3_stmt *q, const struct store_tool_server *server,
                        const struct store_tool_sign_in *x, struct err *e)
{
    struct arena *a = arena_create(0);
    const unsigned char *sealed =
        a ? seal(s, a, tokens_name(a, server, x->user_id, x->about), x->tokens, e) : NULL;
    if (sealed) {
        statement_bind_blob(q, ":sealed", sealed, strlen(x->tokens) + STORE_SEALED_EXTRA);
        statement_bind_text(q, ":about", x->about);
        statement_bind_text(q, ":url", server->url);
        statement_bind_int(q, ":expires_at", x->expires_at);
    }
    arena_destroy(&a);
    return sealed != NULL;
}

bool store_tool_sign_in_put(struct store *s, const struct store_tool_server *server,
                            const struct store_tool_sign_in *x, struct err *e)
{
    int changed = 0;
    if (!store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = begin(s, QUERY_TOOL_SIGN_IN_PUT, server->id, x->user_id, e);
    if (q)
        statement_bind_int(q, ":now", clock_wall_ms());
    if (q && !bind_tokens(s, q, server, x, e)) {
        statement_end(q);
        q = NULL;
    }
    return run(s, q, &changed, e) && (changed || moved(e));
}

bool store_tool_sign_in_claim(struct store *s, int64_t server_id, struct store_tool_sign_in *x,
                              int64_t ms, bool *claimed, struct err *e)
{
    int changed = 0;
    const int64_t now = clock_wall_ms();
    if (!store_write_begin_unsynced(s, e))
        return false;
    sqlite3_stmt *q = begin(s, QUERY_TOOL_SIGN_IN_CLAIM, server_id, x->user_id, e);
    if (q) {
        statement_bind_int(q, ":version", x->version);
        statement_bind_int(q, ":now", now);
        statement_bind_int(q, ":until", now + ms);
    }
    const bool ok = run(s, q, &changed, e);
    *claimed = ok && changed;
    x->claimed = now + ms;
    return ok;
}

bool store_tool_sign_in_release(struct store *s, int64_t server_id,
                                const struct store_tool_sign_in *x, struct err *e)
{
    if (!store_write_begin_unsynced(s, e))
        return false;
    sqlite3_stmt *q = begin(s, QUERY_TOOL_SIGN_IN_RELEASE, server_id, x->user_id, e);
    if (q) {
        statement_bind_int(q, ":version", x->version);
        statement_bind_int(q, ":until", x->claimed);
    }
    return run(s, q, NULL, e);
}

bool store_tool_sign_in_renew(struct store *s, const struct store_tool_server *server,
                              const struct store_tool_sign_in *x, bool *kept, struct err *e)
{
    int changed = 0;
    if (!store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = begin(s, QUERY_TOOL_SIGN_IN_RENEW, server->id, x->user_id, e);
    if (q)
        statement_bind_int(q, ":version", x->version);
    if (q && !bind_tokens(s, q, server, x, e)) {
        statement_end(q);
        q = NULL;
    }
    const bool ok = run(s, q, &changed, e);
    *kept = ok && changed;
    return ok;
}

bool store_tool_sign_in_want(struct store *s, int64_t server_id, int64_t user_id,
                             const char *scopes, struct err *e)
{
    if (!store_write_begin_unsynced(s, e))
        return false;
    sqlite3_stmt *q = begin(s, QUERY_TOOL_SIGN_IN_WANT, server_id, user_id, e);
    if (q)
        statement_bind_text(q, ":wanted", scopes);
    return run(s, q, NULL, e);
}

bool store_tool_sign_in_remove(struct store *s, int64_t server_id,
                               const struct store_tool_sign_in *x, bool *removed, struct err *e)
{
    int changed = 0;
    if (!store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = begin(s, QUERY_TOOL_SIGN_IN_REMOVE, server_id, x->user_id, e);
    if (q)
        statement_bind_int(q, ":version", x->version);
    const bool ok = run(s, q, &changed, e);
    *removed = ok && changed;
    return ok;
}

/* --- under way --- */

static bool trim_flows(struct store *s, const struct store_tool_flow *f, int64_t now, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_TOOL_FLOW_EXPIRE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":now", now);
    if (!statement_run(s, q, NULL, e) || !(q = statement_begin(s, QUERY_TOOL_FLOW_TRIM, e)))
        return false;
    statement_bind_blob(q, ":session_hash", f->session_hash, SECRET_HASH_BYTES);
    statement_bind_int(q, ":most", STORE_TOOL_FLOWS_SESSION - 1);
    return statement_run(s, q, NULL, e);
}

static bool add_flow(struct store *s, const struct store_tool_flow *f, struct err *e)
{
    const int64_t now = clock_wall_ms();
    int changed = 0;
    sqlite3_stmt *q = trim_flows(s, f, now, e) ? statement_begin(s, QUERY_TOOL_FLOW_ADD, e) : NULL;
    if (!q)
        return false;
    statement_bind_blob(q, ":state_hash", f->state_hash, SECRET_HASH_BYTES);
    statement_bind_blob(q, ":browser_hash", f->browser_hash, SECRET_HASH_BYTES);
    statement_bind_blob(q, ":session_hash", f->session_hash, SECRET_HASH_BYTES);
    statement_bind_int(q, ":id", f->server_id);
    statement_bind_text(q, ":about", f->about);
    statement_bind_int(q, ":expires_at", now + STORE_TOOL_FLOW_MS);
    statement_bind_int(q, ":most", STORE_TOOL_FLOWS_MAX);
    return statement_run(s, q, &changed, e) &&
           (changed ||
            err_set(e, ERR_BUSY, "too many sign-ins are under way; try again in some minutes"));
}

bool store_tool_flow_add(struct store *s, const struct store_tool_flow *f, struct err *e)
{
    return store_write_begin_unsynced(s, e) && store_write_end(s, add_flow(s, f, e), e);
}

static bool take_flow(struct store *s, struct arena *a, struct store_tool_flow *f, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_TOOL_FLOW_TAKE, e);
    if (!q)
        return false;
    statement_bind_blob(q, ":state_hash", f->state_hash, SECRET_HASH_BYTES);
    statement_bind_blob(q, ":browser_hash", f->browser_hash, SECRET_HASH_BYTES);
    statement_bind_int(q, ":now", clock_wall_ms());
    const int rc = statement_step(s, q, e);
    bool ok = rc == 1 || (rc == 0 && err_set(e, ERR_NOTFOUND, "no such sign-in is under way"));
    if (rc == 1) {
        memcpy(f->session_hash, sqlite3_column_blob(q, 0), SECRET_HASH_BYTES);
        f->server_id = sqlite3_column_int64(q, 1);
        ok = statement_column_copy(q, 2, a, &f->about, e);
    }
    statement_end(q);
    return ok;
}

bool store_tool_flow_take(struct store *s, struct arena *a, struct store_tool_flow *f,
                          struct err *e)
{
    return store_write_begin_unsynced(s, e) && store_write_end(s, take_flow(s, a, f, e), e);
}
