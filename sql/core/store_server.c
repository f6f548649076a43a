/* The server's own rows: settings, usage counters and the audit log. */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "sql/core/server_internal.h"
#include "sql/core/statement.h"

#define DAY_S 86400
#define SETTING_BYTES 65536

bool store_setting_get(struct store *s, struct arena *a, const char *name, const char **json,
                       struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_SETTING_GET, e);
    if (!q)
        return false;
    statement_bind_text(q, ":name", name);
    int rc = statement_step(s, q, e);
    bool ok = rc == 1 ? statement_column_copy(q, 0, a, json, e)
                      : rc == 0 && err_set(e, ERR_NOTFOUND, "setting %s was never set", name);
    statement_end(q);
    return ok;
}

bool server_set_setting(struct store *s, const char *name, const char *json, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_SETTING_SET, e);
    if (!q)
        return false;
    statement_bind_text(q, ":name", name);
    statement_bind_text(q, ":value", json);
    return statement_run(s, q, NULL, e);
}

bool store_setting_set(struct store *s, const char *name, const char *json, struct err *e)
{
    cJSON *v = json_parse(json, strlen(json), &(struct json_limits){.max_bytes = SETTING_BYTES}, e);
    bool valid = v != NULL;
    cJSON_Delete(v);
    return valid && store_write_begin(s, e) &&
           store_write_end(s, server_set_setting(s, name, json, e), e);
}

static bool unset_setting(struct store *s, const char *name, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_SETTING_UNSET, e);
    if (!q)
        return false;
    statement_bind_text(q, ":name", name);
    return statement_run(s, q, NULL, e);
}

bool server_forget_unseen(struct store *s, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_TOOL_SIGN_INS_UNSEEN, e);
    return q && statement_run(s, q, NULL, e);
}

/* Another provider, or another claim of it, said nothing yet of who is in which group. */
static bool end_claims(struct store *s, const struct store_setting *x, int *ended, struct err *e)
{
    int changed = 0;
    if (strcmp(x->name, "oidc_issuer") && strcmp(x->name, "oidc_groups_claim"))
        return true;
    sqlite3_stmt *q = statement_begin(s, QUERY_GROUP_CLAIMS_END, e);
    if (!q)
        return false;
    statement_bind_text(q, ":name", x->name);
    statement_bind_text(q, ":value", x->json);
    if (!statement_run(s, q, &changed, e))
        return false;
    *ended += changed;
    return !changed || server_forget_unseen(s, e);
}

bool store_settings_change(struct store *s, const struct store_setting *list, int n, int *ended,
                           struct err *e)
{
    *ended = 0;
    if (!store_write_begin(s, e))
        return false;
    bool ok = true;
    for (int i = 0; i < n && ok; i++)
        ok = end_claims(s, &list[i], ended, e) &&
             (list[i].json ? server_set_setting(s, list[i].name, list[i].json, e)
                           : unset_setting(s, list[i].name, e));
    return store_write_end(s, ok, e);
}

bool store_setting_list(struct store *s, store_setting_fn fn, void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_SETTING_LIST, e);
    if (!q)
        return false;
    int rc;
    while ((rc = statement_step(s, q, e)) == 1)
        if (!fn(context, statement_column_text(q, 0), statement_column_text(q, 1)))
            break;
    statement_end(q);
    return rc >= 0;
}

bool server_add_usage(struct store *s, const struct store_usage *u, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_USAGE_ADD, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", u->user_id);
    statement_bind_int(q, ":day", u->day ? u->day : clock_wall_s() / DAY_S);
    statement_bind_int(q, ":key_id", u->key_id);
    statement_bind_int(q, ":requests", u->requests);
    statement_bind_int(q, ":prompt_tokens", u->prompt_tokens);
    statement_bind_int(q, ":cached_tokens", u->cached_tokens);
    statement_bind_int(q, ":completion_tokens", u->completion_tokens);
    return statement_run(s, q, NULL, e);
}

bool store_usage_add(struct store *s, const struct store_usage *u, struct err *e)
{
    return store_write_begin_unsynced(s, e) && store_write_end(s, server_add_usage(s, u, e), e);
}

#define LAST_BATCH "usage.last_batch" /* no setting that the API knows */

bool store_usage_add_batch(struct store *s, const struct store_usage_batch *b, struct err *e)
{
    if (!store_write_begin_unsynced(s, e))
        return false;
    bool ok = server_set_setting(s, LAST_BATCH, b->name, e);
    for (int i = 0; i < b->n && ok; i++)
        ok = server_add_usage(s, &b->rows[i], e);
    return store_write_end(s, ok, e);
}

bool store_usage_last_batch(struct store *s, const char *name, bool *is_last, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_SETTING_GET, e);
    if (!q)
        return false;
    statement_bind_text(q, ":name", LAST_BATCH);
    const int rc = statement_step(s, q, e);
    *is_last = rc == 1 && !strcmp(statement_column_text(q, 0), name);
    statement_end(q);
    return rc >= 0;
}

/* The rows of a statement that was begun and bound; ends it. */
static bool each_usage(struct store *s, sqlite3_stmt *q, store_usage_fn fn, void *context,
                       struct err *e)
{
    int rc;
    while ((rc = statement_step(s, q, e)) == 1) {
        const struct store_usage u = {
            .user_id = sqlite3_column_int64(q, 0),
            .day = sqlite3_column_int64(q, 1),
            .key_id = sqlite3_column_int64(q, 2),
            .requests = sqlite3_column_int64(q, 3),
            .prompt_tokens = sqlite3_column_int64(q, 4),
            .cached_tokens = sqlite3_column_int64(q, 5),
            .completion_tokens = sqlite3_column_int64(q, 6),
        };
        if (!fn(context, &u))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

bool store_usage_list(struct store *s, const struct store_usage_filter *f, store_usage_fn fn,
                      void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, f->user_id ? QUERY_USAGE_LIST : QUERY_USAGE_LIST_ALL, e);
    if (!q)
        return false;
    if (f->user_id)
        statement_bind_int(q, ":user_id", f->user_id);
    statement_bind_int(q, ":day", f->first_day);
    return each_usage(s, q, fn, context, e);
}

bool store_usage_days(struct store *s, const struct store_usage_filter *f, store_usage_fn fn,
                      void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, f->user_id ? QUERY_USAGE_DAYS : QUERY_USAGE_DAYS_ALL, e);
    if (!q)
        return false;
    if (f->user_id)
        statement_bind_int(q, ":user_id", f->user_id);
    statement_bind_int(q, ":day", f->first_day);
    return each_usage(s, q, fn, context, e);
}

bool store_audit_add(struct store *s, const struct store_audit *a, struct err *e)
{
    if (!store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = statement_begin(s, QUERY_AUDIT_ADD, e);
    if (q) {
        statement_bind_int(q, ":now", clock_wall_ms());
        statement_bind_int(q, ":user_id", a->user_id);
        statement_bind_text(q, ":user_name", a->user ? a->user : "");
        statement_bind_text(q, ":action", a->action);
        statement_bind_text(q, ":target", a->target ? a->target : "");
        statement_bind_text(q, ":address", a->address ? a->address : "");
    }
    return store_write_end(s, q && statement_run(s, q, NULL, e), e);
}

static bool each_audit(struct store *s, sqlite3_stmt *q, store_audit_fn fn, void *context,
                       struct err *e)
{
    int rc;
    while ((rc = statement_step(s, q, e)) == 1) {
        const struct store_audit a = {.id = sqlite3_column_int64(q, 0),
                                      .at = sqlite3_column_int64(q, 1),
                                      .user_id = sqlite3_column_int64(q, 2),
                                      .user = statement_column_text(q, 3),
                                      .action = statement_column_text(q, 4),
                                      .target = statement_column_text(q, 5),
                                      .address = statement_column_text(q, 6)};
        if (!fn(context, &a))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

bool store_audit_after(struct store *s, const struct store_audit_from *from, store_audit_fn fn,
                       void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_AUDIT_AFTER, e);
    if (!q)
        return false;
    statement_bind_int(q, ":after", from->after);
    statement_bind_int(q, ":limit", from->limit);
    return each_audit(s, q, fn, context, e);
}

bool store_audit_search(struct store *s, const struct store_audit_filter *f, store_audit_fn fn,
                        void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_AUDIT_PAGE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":before", f->before > 0 ? f->before : INT64_MAX);
    statement_bind_int(q, ":since", f->since);
    statement_bind_int(q, ":until", f->until > 0 ? f->until : INT64_MAX);
    statement_bind_text(q, ":user", f->user ? f->user : "");
    statement_bind_text(q, ":action", f->action ? f->action : "");
    statement_bind_int(q, ":limit", f->limit);
    return each_audit(s, q, fn, context, e);
}

/* In whole seconds, as the trigger audit_no_removal reckons. */
static sqlite3_stmt *begin_before(struct store *s, enum query which, int64_t days, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (q)
        statement_bind_int(q, ":before", (clock_wall_s() - days * DAY_S) * 1000);
    return q;
}

bool store_audit_expire(struct store *s, int64_t days, bool *any, struct err *e)
{
    *any = false;
    if (days < 1)
        return err_set(e, ERR_INPUT, "the audit log is kept for a day at least");
    sqlite3_stmt *q = begin_before(s, QUERY_AUDIT_ANY_BEFORE, days, e);
    if (!q)
        return false;
    const int rc = statement_step(s, q, e);
    statement_end(q);
    if (rc != 1)
        return rc == 0;
    *any = true;
    if (!store_write_begin(s, e))
        return false;
    if ((q = begin_before(s, QUERY_AUDIT_REMOVE_BEFORE, days, e)))
        statement_bind_int(q, ":limit", STORE_AUDIT_STEP);
    return store_write_end(s, q && statement_run(s, q, NULL, e), e);
}
