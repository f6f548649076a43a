/* What belongs to the server as a whole: its settings, its counters, its audit log. */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "sql/core/statement.h"
#include "sql/core/server_row.h"

#define DAY_S 86400
#define SETTING_BYTES 65536

bool store_setting_get(struct store *s, struct arena *a, const char *name, const char **json,
                       struct err *e)
{
    sqlite3_stmt *q = query(s, QUERY_SETTING_GET, e);
    if (!q)
        return false;
    bind_text(q, ":name", name);
    int rc = query_step(s, q, e);
    bool ok = rc == 1 ? column_copy(q, 0, a, json, e)
                      : rc == 0 && err_set(e, ERR_NOTFOUND, "setting %s was never set", name);
    query_end(q);
    return ok;
}

bool set_setting(struct store *s, const char *name, const char *json, struct err *e)
{
    sqlite3_stmt *q = query(s, QUERY_SETTING_SET, e);
    if (!q)
        return false;
    bind_text(q, ":name", name);
    bind_text(q, ":value", json);
    return query_run(s, q, NULL, e);
}

bool store_setting_set(struct store *s, const char *name, const char *json, struct err *e)
{
    cJSON *v = json_parse(json, strlen(json), &(struct json_limits){.max_bytes = SETTING_BYTES}, e);
    bool valid = v != NULL;
    cJSON_Delete(v);
    return valid && write_begin(s, e) && write_end(s, set_setting(s, name, json, e), e);
}

static bool unset_setting(struct store *s, const char *name, struct err *e)
{
    sqlite3_stmt *q = query(s, QUERY_SETTING_UNSET, e);
    if (!q)
        return false;
    bind_text(q, ":name", name);
    return query_run(s, q, NULL, e);
}

bool store_settings_change(struct store *s, const struct store_setting *list, int n, struct err *e)
{
    if (!write_begin(s, e))
        return false;
    bool ok = true;
    for (int i = 0; i < n && ok; i++)
        ok = list[i].json ? set_setting(s, list[i].name, list[i].json, e) : unset_setting(s, list[i].name, e);
    return write_end(s, ok, e);
}

bool store_setting_list(struct store *s, store_setting_fn fn, void *context, struct err *e)
{
    sqlite3_stmt *q = query(s, QUERY_SETTING_LIST, e);
    if (!q)
        return false;
    int rc;
    while ((rc = query_step(s, q, e)) == 1)
        if (!fn(context, column_text(q, 0), column_text(q, 1)))
            break;
    query_end(q);
    return rc >= 0;
}

bool add_usage(struct store *s, const struct store_usage *u, struct err *e)
{
    sqlite3_stmt *q = query(s, QUERY_USAGE_ADD, e);
    if (!q)
        return false;
    bind_int(q, ":user_id", u->user_id);
    bind_int(q, ":day", u->day ? u->day : clock_wall_s() / DAY_S);
    bind_int(q, ":key_id", u->key_id);
    bind_int(q, ":requests", u->requests);
    bind_int(q, ":prompt_tokens", u->prompt_tokens);
    bind_int(q, ":cached_tokens", u->cached_tokens);
    bind_int(q, ":completion_tokens", u->completion_tokens);
    return query_run(s, q, NULL, e);
}

bool store_usage_add(struct store *s, const struct store_usage *u, struct err *e)
{
    return write_begin_unsynced(s, e) && write_end(s, add_usage(s, u, e), e);
}

bool store_usage_list(struct store *s, int64_t user_id, int64_t day, store_usage_fn fn, void *context,
                      struct err *e)
{
    sqlite3_stmt *q = query(s, user_id ? QUERY_USAGE_LIST : QUERY_USAGE_LIST_ALL, e);
    if (!q)
        return false;
    if (user_id)
        bind_int(q, ":user_id", user_id);
    bind_int(q, ":day", day);
    int rc;
    while ((rc = query_step(s, q, e)) == 1) {
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
    query_end(q);
    return rc >= 0;
}

bool store_audit_add(struct store *s, const struct store_audit *a, struct err *e)
{
    if (!write_begin(s, e))
        return false;
    sqlite3_stmt *q = query(s, QUERY_AUDIT_ADD, e);
    if (q) {
        bind_int(q, ":now", clock_wall_ms());
        bind_int(q, ":user_id", a->user_id);
        bind_text(q, ":user_name", a->user ? a->user : "");
        bind_text(q, ":action", a->action);
        bind_text(q, ":target", a->target ? a->target : "");
        bind_text(q, ":address", a->address ? a->address : "");
    }
    return write_end(s, q && query_run(s, q, NULL, e), e);
}

