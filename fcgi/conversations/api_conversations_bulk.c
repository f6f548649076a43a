/* Changes to many conversations at once, the list of tags, and emptying the trash. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/conversations/conversation.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/process/worker.h"
#include "fcgi/recorder/recorder.h"
#include "sql/chats/store_sorting.h"

#define MAX_REPLY ((size_t)512 << 20)

static const struct field_row bulk_fields[] = {
    {"ids", FIELD_READ},     {"pinned", FIELD_READ},     {"archived", FIELD_READ},
    {"trashed", FIELD_READ}, {"add_tags", FIELD_READ},   {"remove_tags", FIELD_READ},
    {"deleted", FIELD_READ}, {"project_id", FIELD_READ}, {0}};

static bool read_ids(struct request *r, const cJSON *body, struct store_bulk *b, struct err *e)
{
    const cJSON *list = NULL, *item;
    if (!json_get_array(body, "ids", &list, e))
        return false;
    const int n = list ? cJSON_GetArraySize(list) : 0;
    if (n < 1 || n > STORE_BULK_MAX)
        return err_field(e, ERR_INPUT, "ids", "must be 1 to %d conversations", STORE_BULK_MAX);
    int64_t *ids = arena_alloc(r->arena, (size_t)n * sizeof *ids);
    if (!ids)
        return err_set(e, ERR_NOMEM, "no memory for the ids");
    cJSON_ArrayForEach (item, list) {
        if (!path_id_parse(cJSON_GetStringValue(item), &ids[b->n++]))
            return err_field(e, ERR_INPUT, "ids", "must hold ids, which are strings of digits");
    }
    b->ids = ids;
    return true;
}

static bool read_tags(struct request *r, const cJSON *body, const char *name, const char **out,
                      struct err *e)
{
    const cJSON *tags = NULL;
    if (!json_get_array(body, name, &tags, e) || !tags)
        return e->code == ERR_NONE;
    struct buf text = {0};
    bool ok = json_write(&text, tags) && (*out = arena_strdup(r->arena, text.data));
    buf_fini(&text);
    return ok || err_set(e, ERR_NOMEM, "no memory for the tags");
}

static void note_deletion(struct request *r, int n)
{
    char target[48];
    snprintf(target, sizeof target, "%d conversations", n);
    if (n)
        audit_record(r, r->who.user_id, r->who.name, "conversation.delete", target);
}

bool conversation_bulk(struct request *r, struct err *e)
{
    struct store_bulk b = {.user_id = r->who.user_id};
    int changed = 0;
    const cJSON *body = request_json(r, e);
    if (!body || !fields_check(r, body, bulk_fields, e) ||
        !conversation_read_which(body, "pinned", &b.pinned, e) ||
        !conversation_read_which(body, "archived", &b.archived, e) ||
        !conversation_read_which(body, "trashed", &b.trashed, e) ||
        !json_get_bool(body, "deleted", &b.remove, e) ||
        !conversation_read_project(body, &b.project_id, e) ||
        !read_tags(r, body, "add_tags", &b.add_tags, e) ||
        !read_tags(r, body, "remove_tags", &b.remove_tags, e) || !read_ids(r, body, &b, e) ||
        !store_conversation_bulk(r->store, &b, &changed, e))
        return false;
    if (b.remove) { /* the recorder stops what still runs in them, and clears them away */
        recorder_notify(r->worker->run_dir, b.ids[0]);
        note_deletion(r, changed);
    }
    struct buf out = {0};
    buf_printf(&out, "{\"changed\":%d}", changed);
    reply_json_buf(r, 200, &out);
    buf_fini(&out);
    return true;
}

bool conversation_empty_trash(struct request *r, struct err *e)
{
    int removed = 0;
    if (!store_trash_empty(r->store, r->who.user_id, &removed, e))
        return false;
    if (removed) {
        recorder_notify(r->worker->run_dir, 1);
        note_deletion(r, removed);
    }
    struct buf out = {0};
    buf_printf(&out, "{\"removed\":%d}", removed);
    reply_json_buf(r, 200, &out);
    buf_fini(&out);
    return true;
}

static bool put_tag(void *context, const char *tag, int64_t conversations)
{
    struct buf *out = context;
    buf_puts(out, buf_ends_with(out, '[') ? "{\"tag\":" : ",{\"tag\":");
    buf_json_string(out, tag, strlen(tag));
    buf_printf(out, ",\"conversations\":%lld}", (long long)conversations);
    return !out->failed;
}

bool conversation_tags(struct request *r, struct err *e)
{
    struct buf out = {.limit = MAX_REPLY};
    buf_puts(&out, "{\"items\":[");
    bool ok = store_tag_list(r->store, r->who.user_id, put_tag, &out, e);
    buf_puts(&out, "]}");
    if (ok)
        reply_json_buf(r, 200, &out);
    buf_fini(&out);
    return ok;
}
