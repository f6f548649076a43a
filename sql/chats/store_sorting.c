/* Bulk changes of conversations, their tags, and the trash; reading tags that callers give as JSON.
 */
#include "sql/chats/store_sorting.h"

#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "sql/chats/conversations_internal.h"
#include "sql/chats/tags_internal.h"
#include "sql/core/statement.h"

#define TAGS_BYTES 16384
#define TRASH_STEP 500 /* conversations in one transaction: some milliseconds */

static bool tag_fits(const cJSON *tag)
{
    const char *t = cJSON_GetStringValue(tag);
    if (!t || !*t || strlen(t) > STORE_TAG_BYTES || *t == ' ' || t[strlen(t) - 1] == ' ')
        return false;
    for (; *t; t++)
        if ((unsigned char)*t < 0x20 || *t == 0x7f)
            return false;
    return true;
}

cJSON *tags_read(const char *json, const char *field, struct err *e)
{
    struct err why = {0};
    const cJSON *tag;
    cJSON *v = json_parse(json, strlen(json), &(struct json_limits){.max_bytes = TAGS_BYTES}, &why);
    bool ok = cJSON_IsArray(v) && cJSON_GetArraySize(v) <= STORE_TAGS_MAX;
    if (ok)
        cJSON_ArrayForEach (tag, v)
            ok = ok && tag_fits(tag);
    if (ok)
        return v;
    cJSON_Delete(v);
    err_field(e, ERR_INPUT, field,
              "must be at most %d texts of 1 to %d bytes, without spaces around them",
              STORE_TAGS_MAX, STORE_TAG_BYTES);
    return NULL;
}

static sqlite3_stmt *begin(struct store *s, enum query which, const struct store_ref *conversation,
                           struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (q) {
        statement_bind_int(q, ":user_id", conversation->user_id);
        statement_bind_int(q, ":id", conversation->id);
    }
    return q;
}

/* One statement for each of the tags. */
static bool run_tags(struct store *s, enum query which, const struct store_ref *conversation,
                     const cJSON *tags, struct err *e)
{
    const cJSON *tag;
    cJSON_ArrayForEach (tag, tags) {
        sqlite3_stmt *q = begin(s, which, conversation, e);
        if (!q)
            return false;
        statement_bind_text(q, ":tag", tag->valuestring);
        if (!statement_run(s, q, NULL, e))
            return false;
    }
    return true;
}

static bool tags_fit(struct store *s, const struct store_ref *conversation, struct err *e)
{
    int64_t n;
    sqlite3_stmt *q = begin(s, QUERY_TAG_COUNT, conversation, e);
    return q && statement_int(s, q, &n, e) &&
           (n <= STORE_TAGS_MAX ||
            err_field(e, ERR_INPUT, "add_tags", "would give a conversation more than %d tags",
                      STORE_TAGS_MAX));
}

static void bind_which(sqlite3_stmt *q, const char *name, enum store_which w)
{
    if (w != WHICH_ANY) /* else NULL */
        statement_bind_int(q, name, w == WHICH_YES);
}

static bool mark(struct store *s, const struct store_ref *conversation, const struct store_bulk *b,
                 int *changed, struct err *e)
{
    const enum query which = b->remove ? QUERY_CONVERSATION_REMOVE : QUERY_CONVERSATION_CHANGE;
    sqlite3_stmt *q = begin(s, which, conversation, e);
    if (!q)
        return false;
    statement_bind_int(q, ":now", clock_wall_ms());
    if (!b->remove) {
        bind_which(q, ":pinned", b->pinned);
        bind_which(q, ":archived", b->archived);
        bind_which(q, ":trashed", b->trashed);
        statement_bind_id(q, ":project", b->project_id);
    }
    return statement_run(s, q, changed, e);
}

/* The tags of a bulk change, parsed once. */
struct tag_changes {
    cJSON *add, *remove; /* NULL: none */
};

static bool change_tags(struct store *s, const struct store_ref *conversation,
                        const struct tag_changes *t, struct err *e)
{
    return run_tags(s, QUERY_TAG_REMOVE, conversation, t->remove, e) &&
           run_tags(s, QUERY_TAG_ADD, conversation, t->add, e) &&
           (!t->add || tags_fit(s, conversation, e));
}

static bool change_all(struct store *s, const struct store_bulk *b, const struct tag_changes *t,
                       int *changed, struct err *e)
{
    *changed = 0;
    if (!conversations_project_fits(s, b->user_id, b->project_id, e))
        return false;
    for (int i = 0; i < b->n; i++) {
        const struct store_ref conversation = {.user_id = b->user_id, .id = b->ids[i]};
        int one = 0;
        if (!mark(s, &conversation, b, &one, e))
            return false;
        *changed += one;
        if (one && !b->remove && !change_tags(s, &conversation, t, e))
            return false;
    }
    return true;
}

bool store_conversation_bulk(struct store *s, const struct store_bulk *b, int *changed,
                             struct err *e)
{
    struct tag_changes t = {0};
    if (b->n < 1 || b->n > STORE_BULK_MAX)
        return err_field(e, ERR_INPUT, "ids", "must be 1 to %d conversations", STORE_BULK_MAX);
    bool ok = (!b->add_tags || (t.add = tags_read(b->add_tags, "add_tags", e))) &&
              (!b->remove_tags || (t.remove = tags_read(b->remove_tags, "remove_tags", e)));
    ok = ok && store_write_begin(s, e) && store_write_end(s, change_all(s, b, &t, changed, e), e);
    cJSON_Delete(t.add);
    cJSON_Delete(t.remove);
    return ok;
}

bool store_tag_list(struct store *s, int64_t user_id, store_tag_fn fn, void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_TAG_LIST, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    int rc;
    while ((rc = statement_step(s, q, e)) == 1)
        if (!fn(context, statement_column_text(q, 0), sqlite3_column_int64(q, 1)))
            break;
    statement_end(q);
    return rc >= 0;
}

static bool empty_step(struct store *s, int64_t user_id, int *removed, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_TRASH_EMPTY, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_int(q, ":now", clock_wall_ms());
    statement_bind_int(q, ":limit", TRASH_STEP);
    return statement_run(s, q, removed, e);
}

bool store_trash_empty(struct store *s, int64_t user_id, int *removed, struct err *e)
{
    int step = 0;
    *removed = 0;
    do {
        if (!store_write_begin(s, e) || !store_write_end(s, empty_step(s, user_id, &step, e), e))
            return false;
        *removed += step;
    } while (step == TRASH_STEP);
    return true;
}
