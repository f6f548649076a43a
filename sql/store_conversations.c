/* Conversations of one user. */
#include "sql/store_conversations.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "sql/statement.h"

#define SEARCH_BYTES 1000
#define MAX_LIKE_BYTES (SEARCH_BYTES * 2 + 2)

static bool no_conversation(struct err *e)
{
    return err_set(e, ERR_NOTFOUND, "there is no such conversation");
}

static bool check_texts(const char *title, const char *settings, struct err *e)
{
    if (title && strlen(title) > STORE_TITLE_BYTES)
        return err_field(e, ERR_INPUT, "title", "is longer than %d bytes", STORE_TITLE_BYTES);
    if (!settings)
        return true;
    struct err why = {0};
    cJSON *v = json_parse(settings, strlen(settings),
                          &(struct json_limits){.max_bytes = STORE_SETTINGS_BYTES}, &why);
    bool object = cJSON_IsObject(v);
    cJSON_Delete(v);
    return object || err_field(e, ERR_INPUT, "settings", "must be a JSON object of at most %d bytes",
                               STORE_SETTINGS_BYTES);
}

bool store_conversation_add(struct store *s, int64_t user_id, const char *title, const char *settings,
                            int64_t *id, struct err *e)
{
    if (!check_texts(title, settings, e) || !write_begin(s, e))
        return false;
    sqlite3_stmt *q = query(s, QUERY_CONVERSATION_ADD, e);
    if (q) {
        bind_int(q, ":user_id", user_id);
        bind_text(q, ":title", title ? title : "");
        bind_text(q, ":settings", settings ? settings : "{}");
        bind_int(q, ":now", clock_wall_ms());
    }
    return write_end(s, q && query_int(s, q, id, e), e);
}

static void borrow(sqlite3_stmt *q, struct store_conversation *c)
{
    *c = (struct store_conversation){
        .id = sqlite3_column_int64(q, 0),
        .user_id = sqlite3_column_int64(q, 1),
        .title = column_text(q, 2),
        .settings = column_text(q, 3),
        .leaf_id = sqlite3_column_int64(q, 4),
        .created_at = sqlite3_column_int64(q, 5),
        .updated_at = sqlite3_column_int64(q, 6),
        .running = sqlite3_column_int(q, 7),
    };
}

bool store_conversation_get(struct store *s, struct arena *a, int64_t user_id, int64_t id,
                            struct store_conversation *out, struct err *e)
{
    sqlite3_stmt *q = query(s, QUERY_CONVERSATION_GET, e);
    if (!q)
        return false;
    bind_int(q, ":user_id", user_id);
    bind_int(q, ":id", id);
    int rc = query_step(s, q, e);
    bool ok = false;
    if (rc == 1) {
        borrow(q, out);
        ok = column_copy(q, 2, a, &out->title, e) && column_copy(q, 3, a, &out->settings, e);
    } else if (rc == 0) {
        no_conversation(e);
    }
    query_end(q);
    return ok;
}

/* %text% with LIKE's own letters escaped. */
static bool like_pattern(const char *text, struct buf *out, struct err *e)
{
    if (strlen(text) > SEARCH_BYTES)
        return err_field(e, ERR_INPUT, "q", "is longer than %d bytes", SEARCH_BYTES);
    buf_putc(out, '%');
    for (; *text; text++) {
        if (strchr("%_\\", *text))
            buf_putc(out, '\\');
        buf_putc(out, *text);
    }
    buf_putc(out, '%');
    return !out->failed || err_set(e, ERR_NOMEM, "memory ran out");
}

static sqlite3_stmt *list_query(struct store *s, const struct store_page *page, struct err *e)
{
    if (!page->text || !*page->text)
        return query(s, QUERY_CONVERSATION_LIST, e);
    struct buf pattern = {.limit = MAX_LIKE_BYTES};
    sqlite3_stmt *q = NULL;
    if (like_pattern(page->text, &pattern, e) && (q = query(s, QUERY_CONVERSATION_SEARCH, e)))
        bind_text(q, ":pattern", pattern.data);
    buf_fini(&pattern);
    return q;
}

/* Steps through conversations; ends the statement. */
static bool each(struct store *s, sqlite3_stmt *q, store_conversation_fn fn, void *context, struct err *e)
{
    int rc;
    struct store_conversation c;
    while ((rc = query_step(s, q, e)) == 1) {
        borrow(q, &c);
        if (!fn(context, &c))
            break;
    }
    query_end(q);
    return rc >= 0;
}

bool store_conversation_list(struct store *s, int64_t user_id, const struct store_page *page,
                             store_conversation_fn fn, void *context, struct err *e)
{
    if (page->limit < 1 || page->limit > STORE_PAGE_MAX)
        return err_field(e, ERR_INPUT, "limit", "must be 1 to %d", STORE_PAGE_MAX);
    const bool first = !page->before_updated && !page->before_id;
    sqlite3_stmt *q = list_query(s, page, e);
    if (!q)
        return false;
    bind_int(q, ":user_id", user_id);
    bind_int(q, ":before_updated", first ? INT64_MAX : page->before_updated);
    bind_int(q, ":before_id", first ? INT64_MAX : page->before_id);
    bind_int(q, ":limit", page->limit);
    return each(s, q, fn, context, e);
}

bool store_conversation_each(struct store *s, int64_t user_id, int64_t after, int limit,
                             store_conversation_fn fn, void *context, struct err *e)
{
    sqlite3_stmt *q = query(s, QUERY_CONVERSATION_EACH, e);
    if (!q)
        return false;
    bind_int(q, ":user_id", user_id);
    bind_int(q, ":after", after);
    bind_int(q, ":limit", limit);
    return each(s, q, fn, context, e);
}

/* Is `leaf_id` a message of this conversation? The foreign key would say so too, but not in which field. */
static bool leaf_fits(struct store *s, int64_t user_id, int64_t id, int64_t leaf_id, struct err *e)
{
    sqlite3_stmt *q = query(s, QUERY_MESSAGE_PARENT, e);
    if (!q)
        return false;
    bind_int(q, ":user_id", user_id);
    bind_int(q, ":conversation_id", id);
    bind_int(q, ":id", leaf_id);
    int rc = query_step(s, q, e);
    query_end(q);
    return rc == 1 || (rc == 0 && err_field(e, ERR_INPUT, "leaf_id",
                                            "is not a message of this conversation"));
}

static bool change(struct store *s, int64_t user_id, int64_t id,
                   const struct store_conversation_change *c, struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = query(s, QUERY_CONVERSATION_CHANGE, e);
    if (!q)
        return false;
    bind_int(q, ":user_id", user_id);
    bind_int(q, ":id", id);
    bind_text(q, ":title", c->title);
    bind_text(q, ":settings", c->settings);
    bind_id(q, ":leaf_id", c->leaf_id);
    if (!query_run(s, q, &changed, e))
        return false;
    if (!changed)
        return no_conversation(e);
    return !c->leaf_id || leaf_fits(s, user_id, id, c->leaf_id, e);
}

bool store_conversation_change(struct store *s, int64_t user_id, int64_t id,
                               const struct store_conversation_change *c, struct err *e)
{
    return check_texts(c->title, c->settings, e) && write_begin(s, e) &&
           write_end(s, change(s, user_id, id, c, e), e);
}

bool store_conversation_remove(struct store *s, int64_t user_id, int64_t id, struct err *e)
{
    if (!write_begin(s, e))
        return false;
    int changed = 0;
    sqlite3_stmt *q = query(s, QUERY_CONVERSATION_REMOVE, e);
    if (q) {
        bind_int(q, ":user_id", user_id);
        bind_int(q, ":id", id);
        bind_int(q, ":now", clock_wall_ms());
    }
    bool ok = q && query_run(s, q, &changed, e) && (changed || no_conversation(e));
    return write_end(s, ok, e);
}
