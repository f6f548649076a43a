/* responses.h: `conversation`: what is in one goes before the input, and what was asked and
 * answered goes into it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/request.h"
#include "fcgi/responses/responses.h"
#include "sql/chats/store_openai.h"

static const struct json_limits stored = {
    .max_depth = 160}; /* what came in with 128 is a little deeper in its row */

struct collected {
    struct request *r;
    struct responses_before *before;
    struct err *e;
    bool ok;
};

static bool collect(void *context, const struct store_openai_item *row)
{
    struct collected *c = context;
    cJSON *item = NULL;
    c->ok = responses_before_count(c->before, c->r, row->item, c->e) &&
            (item = json_parse(row->item, strlen(row->item), &stored, c->e)) != NULL;
    if (c->ok && !cJSON_AddItemToArray(c->before->items, item)) {
        cJSON_Delete(item);
        c->ok = err_set(c->e, ERR_NOMEM, "no memory for the conversation");
    }
    c->before->position = row->position;
    return c->ok;
}

bool responses_conversation_items(struct request *r, const char *id, int64_t until,
                                  struct responses_before *before, struct err *e)
{
    struct store_openai_conversation found;
    struct collected c = {.r = r, .before = before, .e = e, .ok = true};
    const struct store_openai_range all = {
        .user_id = r->who.user_id, .conversation_id = id, .until = until, .limit = -1};
    const struct store_text_ref ref = {.user_id = r->who.user_id, .id = id};
    return store_openai_conversation_get(r->store, r->arena, &ref, &found, e) &&
           store_openai_items_each(r->store, &all, collect, &c, e) && c.ok;
}

/* "conv_..." or {"id": "conv_..."}. */
static bool read_id(const cJSON *body, const char **id, struct err *e)
{
    const cJSON *named = json_member(body, "conversation");
    const bool object = cJSON_IsObject(named);
    *id = cJSON_GetStringValue(object ? json_member(named, "id") : named);
    if (!named || *id)
        return true;
    return err_field(e, ERR_INPUT, object ? "conversation.id" : "conversation",
                     "must be a conversation's id%s", object ? "" : ", or an object with it");
}

bool responses_conversation_read(struct responses_request *q, struct request *r, const cJSON *body,
                                 struct err *e)
{
    struct responses_before before = {.field = "conversation", .items = q->chain};
    if (!read_id(body, &q->conversation, e))
        return false;
    if (!q->conversation)
        return true;
    q->appended = true; /* until it is found not to be so */
    if (q->previous)
        return err_field(e, ERR_INPUT, "conversation",
                         "does not go with previous_response_id: each says what came before");
    if (!responses_conversation_items(r, q->conversation, INT64_MAX, &before, e)) {
        if (e->code == ERR_NOTFOUND)
            err_field(e, ERR_NOTFOUND, "conversation", "'%.60s' is not kept here", q->conversation);
        return false;
    }
    q->conversation_position = before.position;
    return true;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool bad_id(struct err *e, const char *field, int i, const char *why, const char *id)
{
    char name[48];
    snprintf(name, sizeof name, "%.20s[%d].id", field, i);
    return err_field(e, ERR_INPUT, name, "'%.60s' %s", id, why);
}

struct row_list {
    struct store_openai_item *rows; /* [n] */
    int n;
    const char *field; /* of the request, that they came in */
};

/* Each id may stand once, in these and in the conversation. */
static bool ids_are_new(struct request *r, const char *conversation, const struct row_list *l,
                        struct err *e)
{
    const struct store_openai_item *rows = l->rows;
    const int n = l->n;
    const char **ids = arena_alloc(r->arena, (size_t)(n + 1) * sizeof *ids);
    struct store_openai_item found;
    struct err none = {0};
    if (!ids)
        return err_set(e, ERR_NOMEM, "no memory for the items");
    for (int i = 0; i < n; i++) {
        ids[i] = rows[i].id;
        if (conversation &&
            store_openai_item_get(r->store, r->arena,
                                  &(struct store_openai_item_ref){.user_id = r->who.user_id,
                                                                  .conversation_id = conversation,
                                                                  .id = rows[i].id},
                                  &found, &none))
            return bad_id(e, l->field, i, "is an item of this conversation already", rows[i].id);
    }
    qsort(ids, (size_t)n, sizeof *ids, compare_ids);
    for (int i = 1; i < n; i++)
        if (!strcmp(ids[i - 1], ids[i]))
            return err_field(e, ERR_INPUT, l->field, "two items have the id '%.60s'", ids[i]);
    return true;
}

/* A row's text, out of a buffer that is used for one after the other. */
static bool fill_row(struct request *r, struct store_openai_item *row, struct buf *text,
                     struct err *e)
{
    row->item = text->failed ? NULL : arena_copy(r->arena, text->data, text->len);
    buf_clear(text);
    return row->item || err_set(e, ERR_NOMEM, "no memory for the items");
}

struct store_openai_item *responses_conversation_rows(struct request *r, const char *conversation,
                                                      const cJSON *items, const char *field,
                                                      struct err *e)
{
    struct store_openai_item *rows =
        arena_alloc(r->arena, ((size_t)cJSON_GetArraySize(items) + 1) * sizeof *rows);
    struct buf text = {0};
    const cJSON *item;
    bool ok = rows || err_set(e, ERR_NOMEM, "no memory for the items");
    int n = 0;
    cJSON_ArrayForEach (item, items) {
        const char *id = json_text(item, "id");
        const size_t len = id ? strlen(id) : 0;
        if (ok && (!len || len > STORE_OPENAI_ID_MAX))
            ok = bad_id(e, field, n, "can't be an item's id", id ? id : "");
        if (!ok)
            break;
        json_write(&text, item);
        ok = fill_row(r, &rows[n], &text, e);
        rows[n++].id = id;
    }
    buf_fini(&text);
    const struct row_list list = {.rows = rows, .n = n, .field = field};
    return ok && ids_are_new(r, conversation, &list, e) ? rows : NULL;
}

static bool append(struct responses_view *v, struct err *e)
{
    struct request *r = v->stream.r;
    const int n_input = cJSON_GetArraySize(v->q->input), n = n_input + v->parts.n;
    const bool cut = !strcmp(responses_status(v), "incomplete");
    struct store_openai_item *rows = arena_alloc(r->arena, (size_t)(n + 1) * sizeof *rows);
    struct buf text = {0};
    bool ok = rows || err_set(e, ERR_NOMEM, "no memory for the items");
    if (ok)
        memcpy(rows, v->q->rows, (size_t)n_input * sizeof *rows);
    for (int i = 0; ok && i < v->parts.n; i++) {
        char id[RESPONSES_ID_SIZE];
        responses_part_id(id, v, i);
        responses_put_item(&text, v, i, cut && i == v->parts.n - 1 ? "incomplete" : "completed");
        rows[n_input + i].id = arena_strdup(r->arena, id);
        ok = (rows[n_input + i].id || err_set(e, ERR_NOMEM, "no memory for the items")) &&
             fill_row(r, &rows[n_input + i], &text, e);
    }
    buf_fini(&text);
    const struct store_openai_addition a = {.user_id = r->who.user_id,
                                            .conversation_id = v->q->conversation,
                                            .items = rows,
                                            .n = n,
                                            .storage_bytes = r->who.limits.storage_bytes};
    return ok && store_openai_items_add(r->store, &a, e);
}

void responses_conversation_append(struct responses_view *v)
{
    struct err e = {0};
    char message[IGNORED_MESSAGE_BYTES];
    if (append(v, &e))
        return;
    v->q->appended = false;
    snprintf(message, sizeof message, "nothing was added to the conversation: %.110s", e.text);
    ignored_warn(v->stream.r, "conversation", message, true);
}
