/* Lists, searches and changes the conversations of one user. */
#include "sql/chats/store_conversations.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "sql/chats/conversations_internal.h"
#include "sql/chats/tags_internal.h"
#include "sql/core/search_internal.h"
#include "sql/core/statement.h"

#define MAX_TERMS_BYTES 4096
/* Columns of a search beyond those of every conversation. */
#define C_PROJECT 13
#define C_MATCH_ID 14
#define C_MATCH_TEXT 15
#define C_MATCH_FILE 16
#define C_MATCH_FILE_NAME 17
#define C_MATCH_FILE_TEXT 18

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
    return object || err_field(e, ERR_INPUT, "settings",
                               "must be a JSON object of at most %d bytes", STORE_SETTINGS_BYTES);
}

/* Notes that the title is the user's own, so that no generated title replaces it. */
static bool own_title(struct store *s, int64_t user_id, int64_t id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_OWN_TITLE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_int(q, ":id", id);
    return statement_run(s, q, NULL, e);
}

bool store_conversation_add(struct store *s, const struct store_conversation_new *c, int64_t *id,
                            struct err *e)
{
    if (!check_texts(c->title, c->settings, e) || !store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = conversations_project_fits(s, c->user_id, c->project_id, e)
                          ? statement_begin(s, QUERY_CONVERSATION_ADD, e)
                          : NULL;
    if (q) {
        statement_bind_id(q, ":project", c->project_id > 0 ? c->project_id : 0);
        statement_bind_int(q, ":user_id", c->user_id);
        statement_bind_text(q, ":title", c->title ? c->title : "");
        statement_bind_text(q, ":settings", c->settings ? c->settings : "{}");
        statement_bind_int(q, ":now", clock_wall_ms());
    }
    bool ok = q && statement_int(s, q, id, e);
    return store_write_end(s, ok && (!c->title || !*c->title || own_title(s, c->user_id, *id, e)),
                           e);
}

bool conversations_project_fits(struct store *s, int64_t user_id, int64_t project_id, struct err *e)
{
    if (!project_id || project_id == STORE_NO_PROJECT)
        return true;
    sqlite3_stmt *q = statement_begin(s, QUERY_PROJECT_THERE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_int(q, ":id", project_id);
    const int rc = statement_step(s, q, e);
    statement_end(q);
    return rc == 1 ||
           (rc == 0 && err_field(e, ERR_INPUT, "project_id", "there is no such project"));
}

static void borrow_match(const struct store *s, sqlite3_stmt *q, struct store_conversation *c)
{
    c->match_id = sqlite3_column_int64(q, C_MATCH_ID);
    c->match_text = statement_column_optional(q, C_MATCH_TEXT);
    c->match_file = sqlite3_column_int64(q, C_MATCH_FILE);
    c->match_file_name = statement_column_optional(q, C_MATCH_FILE_NAME);
    if (c->match_file) {
        c->match_text = c->match_file_name;
        search_place(s, c->match_text, &c->match_at, &c->match_bytes);
        if (!c->match_bytes)
            c->match_text = statement_column_optional(q, C_MATCH_FILE_TEXT);
    }
    if (c->match_text && !c->match_bytes)
        search_place(s, c->match_text, &c->match_at, &c->match_bytes);
}

static void borrow(const struct store *s, sqlite3_stmt *q, struct store_conversation *c)
{
    *c = (struct store_conversation){
        .id = sqlite3_column_int64(q, 0),
        .user_id = sqlite3_column_int64(q, 1),
        .title = statement_column_text(q, 2),
        .settings = statement_column_text(q, 3),
        .leaf_id = sqlite3_column_int64(q, 4),
        .created_at = sqlite3_column_int64(q, 5),
        .updated_at = sqlite3_column_int64(q, 6),
        .running = sqlite3_column_int(q, 7),
        .pinned = sqlite3_column_int(q, 8),
        .archived = sqlite3_column_int(q, 9),
        .trashed_at = sqlite3_column_int64(q, 10),
        .fork_of = sqlite3_column_int64(q, 11),
        .tags = statement_column_text(q, 12),
        .project_id = sqlite3_column_int64(q, C_PROJECT),
    };
    if (sqlite3_column_count(q) > C_MATCH_FILE_TEXT)
        borrow_match(s, q, c);
}

bool store_conversation_get(struct store *s, struct arena *a, const struct store_ref *conversation,
                            struct store_conversation *out, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_CONVERSATION_GET, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", conversation->user_id);
    statement_bind_int(q, ":id", conversation->id);
    int rc = statement_step(s, q, e);
    bool ok = false;
    if (rc == 1) {
        borrow(s, q, out);
        ok = statement_column_copy(q, 2, a, &out->title, e) &&
             statement_column_copy(q, 3, a, &out->settings, e) &&
             statement_column_copy(q, 12, a, &out->tags, e);
    } else if (rc == 0) {
        no_conversation(e);
    }
    statement_end(q);
    return ok;
}

static sqlite3_stmt *list_query(struct store *s, const struct store_page *page, const char *terms,
                                struct err *e)
{
    if (page->after_id)
        return statement_begin(s, QUERY_CONVERSATION_LIST_ABOVE, e);
    if (!page->text || !*page->text)
        return statement_begin(s, QUERY_CONVERSATION_LIST, e);
    sqlite3_stmt *q = statement_begin(s, QUERY_CONVERSATION_SEARCH, e);
    if (q)
        statement_bind_text(q, ":terms", terms);
    return q;
}

static void bind_which(sqlite3_stmt *q, const char *name, enum store_which w)
{
    if (w != WHICH_ANY) /* else NULL */
        statement_bind_int(q, name, w == WHICH_YES);
}

/* Steps through conversations; ends the statement. */
static bool each(struct store *s, sqlite3_stmt *q, store_conversation_fn fn, void *context,
                 struct err *e)
{
    int rc;
    struct store_conversation c;
    while ((rc = statement_step(s, q, e)) == 1) {
        borrow(s, q, &c);
        if (!fn(context, &c))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

/* `to` is where a page before the first would end: no row has the id 0. */
static void bind_place(sqlite3_stmt *q, const struct store_page *page)
{
    const bool first = !page->before_updated && !page->before_id;
    const bool bounded = page->to && (first || page->to <= page->before_updated);
    statement_bind_int(q, ":before_updated",
                       bounded ? page->to
                       : first ? INT64_MAX
                               : page->before_updated);
    statement_bind_int(q, ":before_id", bounded ? 0 : first ? INT64_MAX : page->before_id);
}

/* :tags, folded here once and not for each row. */
static bool bind_tags(sqlite3_stmt *q, const struct store_page *page, struct err *e)
{
    struct buf json = {0};
    buf_putc(&json, '[');
    for (int i = 0; i < page->n_tags && !json.failed; i++) {
        char *folded = fold_whole(page->tags[i]);
        if (i)
            buf_putc(&json, ',');
        buf_json_string(&json, folded ? folded : page->tags[i],
                        strlen(folded ? folded : page->tags[i]));
        free(folded);
    }
    buf_putc(&json, ']');
    const bool ok = !json.failed || err_set(e, ERR_NOMEM, "memory ran out");
    if (ok && page->n_tags)
        statement_bind_text(q, ":tags", json.data);
    buf_fini(&json);
    return ok;
}

static sqlite3_stmt *begin_list(struct store *s, const struct store_page *page, const char *terms,
                                struct err *e)
{
    sqlite3_stmt *q = list_query(s, page, terms, e);
    if (!q || !bind_tags(q, page, e))
        return NULL;
    statement_bind_int(q, ":user_id", page->user_id);
    if (page->after_id) {
        statement_bind_int(q, ":after_updated", page->after_updated);
        statement_bind_int(q, ":after_id", page->after_id);
        statement_bind_int(q, ":to", page->to ? page->to : INT64_MAX);
    } else {
        bind_place(q, page);
    }
    statement_bind_int(q, ":from", page->from);
    bind_which(q, ":pinned", page->pinned);
    bind_which(q, ":archived", page->archived);
    statement_bind_int(q, ":trashed", page->trashed);
    if (page->project)
        statement_bind_int(q, ":project", page->project == STORE_NO_PROJECT ? 0 : page->project);
    statement_bind_int(q, ":limit", page->limit);
    return q;
}

/* A text that is in many conversations fills a page from the newest ones: reading a little of them
 * tells, before the index lists every message there is with it. */
static bool is_common(struct store *s, const struct store_page *page)
{
    struct err why = {0};
    int n = 0;
    search_limit(s, true);
    sqlite3_stmt *q = begin_list(s, page, NULL, &why);
    while (q && n < page->limit && statement_step(s, q, &why) == 1)
        n++;
    statement_end(q);
    const bool whole = !s->search.cut && why.code == ERR_NONE;
    search_limit(s, false);
    return whole;
}

bool store_conversation_list(struct store *s, const struct store_page *page,
                             store_conversation_fn fn, void *context, struct err *e)
{
    struct buf terms = {.limit = MAX_TERMS_BYTES};
    const bool search = page->text && *page->text;
    if (page->cut)
        *page->cut = false;
    if (page->indexing)
        *page->indexing = false;
    if (page->limit < 1 || page->limit > STORE_PAGE_MAX)
        return err_field(e, ERR_INPUT, "limit", "must be 1 to %d", STORE_PAGE_MAX);
    if (page->after_id && (page->before_id || search))
        return err_field(e, ERR_INPUT, "after", "goes neither with `before` nor with `q`");
    bool ok = !search || search_begin(s, page->text, &terms, e);
    if (ok) {
        const bool by_index = terms.len && !is_common(s, page);
        sqlite3_stmt *q = begin_list(s, page, by_index ? terms.data : NULL, e);
        ok = q && each(s, q, fn, context, e);
    }
    if (ok && search && page->cut)
        *page->cut = s->search.cut;
    if (ok && search && page->indexing)
        ok = search_is_indexing(s, page->user_id, page->indexing, e);
    buf_fini(&terms);
    return ok;
}

/* Is `leaf_id` a message of this conversation? The foreign key would say so too, but not in which
 * field. */
static bool leaf_fits(struct store *s, int64_t user_id, int64_t id, int64_t leaf_id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_MESSAGE_PARENT, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_int(q, ":conversation_id", id);
    statement_bind_int(q, ":id", leaf_id);
    int rc = statement_step(s, q, e);
    statement_end(q);
    return rc == 1 ||
           (rc == 0 && err_field(e, ERR_INPUT, "leaf_id", "is not a message of this conversation"));
}

static bool set_tags(struct store *s, const struct store_ref *c, const cJSON *tags, struct err *e)
{
    const cJSON *tag;
    sqlite3_stmt *q = statement_begin(s, QUERY_TAGS_CLEAR, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", c->user_id);
    statement_bind_int(q, ":id", c->id);
    if (!statement_run(s, q, NULL, e))
        return false;
    cJSON_ArrayForEach (tag, tags) {
        if (!(q = statement_begin(s, QUERY_TAG_ADD, e)))
            return false;
        statement_bind_int(q, ":user_id", c->user_id);
        statement_bind_int(q, ":id", c->id);
        statement_bind_text(q, ":tag", tag->valuestring);
        if (!statement_run(s, q, NULL, e))
            return false;
    }
    return true;
}

static bool change(struct store *s, const struct store_ref *which,
                   const struct store_conversation_change *c, const cJSON *tags, struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = conversations_project_fits(s, which->user_id, c->project_id, e)
                          ? statement_begin(s, QUERY_CONVERSATION_CHANGE, e)
                          : NULL;
    if (!q)
        return false;
    statement_bind_id(q, ":project", c->project_id);
    statement_bind_int(q, ":user_id", which->user_id);
    statement_bind_int(q, ":id", which->id);
    statement_bind_int(q, ":now", clock_wall_ms());
    statement_bind_text(q, ":title", c->title);
    statement_bind_text(q, ":settings", c->settings);
    statement_bind_id(q, ":leaf_id", c->leaf_id);
    bind_which(q, ":pinned", c->pinned);
    bind_which(q, ":archived", c->archived);
    bind_which(q, ":trashed", c->trashed);
    if (!statement_run(s, q, &changed, e))
        return false;
    if (!changed)
        return no_conversation(e);
    return (!c->title || own_title(s, which->user_id, which->id, e)) &&
           (!c->leaf_id || leaf_fits(s, which->user_id, which->id, c->leaf_id, e)) &&
           (!tags || set_tags(s, which, tags, e));
}

bool store_conversation_change(struct store *s, int64_t user_id, int64_t id,
                               const struct store_conversation_change *c, struct err *e)
{
    cJSON *tags = NULL;
    if (!check_texts(c->title, c->settings, e) ||
        (c->tags && !(tags = tags_read(c->tags, "tags", e))))
        return false;
    const struct store_ref which = {.user_id = user_id, .id = id};
    bool ok = store_write_begin(s, e) && store_write_end(s, change(s, &which, c, tags, e), e);
    cJSON_Delete(tags);
    return ok;
}

bool store_conversation_remove(struct store *s, int64_t user_id, int64_t id, struct err *e)
{
    if (!store_write_begin(s, e))
        return false;
    int changed = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_CONVERSATION_REMOVE, e);
    if (q) {
        statement_bind_int(q, ":user_id", user_id);
        statement_bind_int(q, ":id", id);
        statement_bind_int(q, ":now", clock_wall_ms());
    }
    bool ok = q && statement_run(s, q, &changed, e) && (changed || no_conversation(e));
    return store_write_end(s, ok, e);
}
