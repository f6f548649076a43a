/* /api/conversations: make, read, change, remove; stop an answer. docs/API-pages.md is the
 * contract. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/engine.h"
#include "fcgi/conversations/conversation.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/process/worker.h"
#include "fcgi/recorder/recorder.h"
#include "sql/chats/store_conversations.h"
#include "sql/users/store_users.h"

#define MAX_REPLY ((size_t)512 << 20)
#define MAX_RUNNING                                                                                \
    64 /* answers of one conversation that a removal stops at once; the recorder stops the rest */

/* The rest of what one conversation says beyond its line in the list. */
static void put_details(struct buf *out, const struct store_conversation *c)
{
    buf_printf(out, ",\"settings\":%s", c->settings);
    if (c->leaf_id)
        buf_printf(out, ",\"leaf_id\":\"%lld\"", (long long)c->leaf_id);
    else
        buf_puts(out, ",\"leaf_id\":null");
}

bool conversation_send(struct request *r, int status, int64_t id, struct err *e)
{
    struct store_conversation c;
    struct buf out = {.limit = MAX_REPLY};
    if (!store_conversation_get(r->store, r->arena,
                                &(struct store_ref){.user_id = r->who.user_id, .id = id}, &c, e))
        return false;
    conversation_json(&out, &c);
    put_details(&out, &c);
    buf_putc(&out, '}');
    reply_json_buf(r, status, &out);
    buf_fini(&out);
    return true;
}

bool conversation_read_which(const cJSON *body, const char *name, enum store_which *out,
                             struct err *e)
{
    bool yes = false;
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(body, name);
    if (!v || cJSON_IsNull(v))
        return true;
    if (!json_get_bool(body, name, &yes, e))
        return false;
    *out = yes ? WHICH_YES : WHICH_NO;
    return true;
}

static bool read_marks(struct request *r, const cJSON *body, struct store_conversation_change *c,
                       struct err *e)
{
    const cJSON *tags = cJSON_GetObjectItemCaseSensitive(body, "tags");
    if (!conversation_read_which(body, "pinned", &c->pinned, e) ||
        !conversation_read_which(body, "archived", &c->archived, e) ||
        !conversation_read_which(body, "trashed", &c->trashed, e))
        return false;
    if (!tags || cJSON_IsNull(tags))
        return true;
    struct buf text = {0};
    bool ok = json_write(&text, tags) && (c->tags = arena_strdup(r->arena, text.data));
    buf_fini(&text);
    return ok || err_set(e, ERR_NOMEM, "no memory for the tags");
}

bool conversation_read_project(const cJSON *body, int64_t *out, struct err *e)
{
    const char *id = NULL;
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(body, "project_id");
    if (cJSON_IsNull(v))
        *out = STORE_NO_PROJECT;
    else if (!json_get_string(body, "project_id", &id, e) || (id && !path_id_parse(id, out)))
        return err_field(e, ERR_INPUT, "project_id", "must be the id of a project, or null");
    return true;
}

/* title, settings, leaf_id of a body; *settings is JSON text in the arena, or NULL. */
static bool read_change(struct request *r, const cJSON *body, const char *stored,
                        struct store_conversation_change *c, struct err *e)
{
    const cJSON *settings = NULL;
    const char *leaf = NULL;
    if (!json_get_string(body, "title", &c->title, e) ||
        !json_get_object(body, "settings", &settings, e) ||
        !json_get_string(body, "leaf_id", &leaf, e) ||
        !conversation_read_project(body, &c->project_id, e))
        return false;
    if (leaf && !path_id_parse(leaf, &c->leaf_id))
        return err_field(e, ERR_INPUT, "leaf_id", "is not a message of this conversation");
    if (!settings)
        return true;
    struct buf text = {0};
    cJSON *checked = conversation_settings(r, stored, settings, e);
    bool ok = checked &&
              (json_write(&text, checked) || err_set(e, ERR_NOMEM, "no memory for the settings"));
    if (ok && !(c->settings = arena_strdup(r->arena, text.data)))
        ok = err_set(e, ERR_NOMEM, "no memory for the settings");
    cJSON_Delete(checked);
    buf_fini(&text);
    return ok;
}

static bool make_conversation(struct request *r, struct err *e)
{
    struct store_conversation_change c = {0};
    int64_t id;
    const char *defaults;
    const cJSON *body = request_json(r, e);
    if (!body || !store_user_defaults(r->store, r->arena, r->who.user_id, &defaults, e) ||
        !read_change(r, body, defaults, &c, e))
        return false;
    if (!c.settings)
        c.settings = defaults;
    if (c.leaf_id)
        return err_field(e, ERR_INPUT, "leaf_id", "a new conversation has no messages");
    return store_conversation_add(r->store,
                                  &(struct store_conversation_new){.user_id = r->who.user_id,
                                                                   .title = c.title,
                                                                   .project_id = c.project_id,
                                                                   .settings = c.settings},
                                  &id, e) &&
           conversation_send(r, 201, id, e);
}

static bool read_conversation(struct request *r, struct err *e)
{
    int64_t id, texts = 0;
    struct store_conversation c;
    struct buf out = {.limit = MAX_REPLY};
    if (!path_id_param(r, "id", &id, e) ||
        !request_query_int(r, "texts", 1, CONVERSATION_TEXTS_MAX, &texts, e) ||
        !store_conversation_get(r->store, r->arena,
                                &(struct store_ref){.user_id = r->who.user_id, .id = id}, &c, e))
        return false;
    conversation_json(&out, &c);
    put_details(&out, &c);
    buf_puts(&out, ",\"messages\":[");
    bool ok = texts ? conversation_put_end(r, &c, (int)texts, &out, e)
                    : store_message_list(r->store,
                                         &(struct store_message_range){.user_id = r->who.user_id,
                                                                       .conversation_id = id},
                                         conversation_message_list_item, &out, e);
    buf_puts(&out, "]}");
    if (ok)
        reply_json_buf(r, 200, &out);
    buf_fini(&out);
    return ok;
}

static bool change_conversation(struct request *r, struct err *e)
{
    int64_t id;
    struct store_conversation now;
    struct store_conversation_change c = {0};
    const cJSON *body = request_json(r, e);
    /* The page sends its settings whole: what it leaves out is back at the model's default. */
    return body && path_id_param(r, "id", &id, e) &&
           store_conversation_get(r->store, r->arena,
                                  &(struct store_ref){.user_id = r->who.user_id, .id = id}, &now,
                                  e) &&
           read_change(r, body, "{}", &c, e) && read_marks(r, body, &c, e) &&
           store_conversation_change(r->store, r->who.user_id, id, &c, e) &&
           conversation_send(r, 200, id, e);
}

struct keys {
    char key[MAX_RUNNING][ENGINE_KEY_SIZE];
    int n;
};

static bool note_key(void *context, const struct store_message *m)
{
    struct keys *k = context;
    snprintf(k->key[k->n++], ENGINE_KEY_SIZE, "%s", m->job_key ? m->job_key : "");
    return k->n < MAX_RUNNING;
}

static bool remove_conversation(struct request *r, struct err *e)
{
    int64_t id;
    char socket[WORKER_SOCKET_BYTES];
    struct keys keys = {0};
    if (!path_id_param(r, "id", &id, e) ||
        !store_message_running(r->store, &(struct store_ref){.user_id = r->who.user_id, .id = id},
                               note_key, &keys, e) ||
        !store_conversation_remove(r->store, r->who.user_id, id, e))
        return false;
    /* Should the engine not hear it now, the recorder tells it again. */
    for (int i = 0; i < keys.n; i++)
        engine_cancel_async(worker_job_socket(r->worker, keys.key[i], socket), keys.key[i], NULL);
    recorder_notify(r->worker->run_dir, id);
    audit_record_id(r, "conversation.delete", "conversation", id);
    return reply_empty(r, 204);
}

/* Only requests the stop: the row ends when the engine has stopped and the recorder has written the
 * rest. */
static bool stop_answer(struct request *r, struct err *e)
{
    int64_t id;
    char socket[WORKER_SOCKET_BYTES];
    struct store_message m;
    struct err why = {0};
    if (!path_id_param(r, "id", &id, e) ||
        !store_message_get(r->store, r->arena,
                           &(struct store_ref){.user_id = r->who.user_id, .id = id}, &m, e))
        return false;
    if (m.status == MESSAGE_RUNNING &&
        !engine_cancel_key(worker_job_socket(r->worker, m.job_key, socket), m.job_key, &why)) {
        recorder_notify(r->worker->run_dir, id);
        if (why.code != ERR_NOTFOUND && why.code != ERR_UNAVAILABLE) {
            *e = why;
            return false;
        }
    }
    return reply_empty(r, 202);
}

const struct route api_conversations_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/conversations",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = conversation_list,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "List or search the own conversations, newest first",
             .query = "ConversationQuery",
             .reply = "ConversationList",
             .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/api/conversations",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = make_conversation,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Begin a conversation",
             .body = "ConversationRequest",
             .reply = "Conversation",
             .statuses = "201 404"}},
    {.method = HTTP_GET,
     .path = "/api/conversations/{id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = read_conversation,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "A conversation with its messages",
             .query = "ConversationTexts",
             .reply = "Conversation",
             .statuses = "200"}},
    {.method = HTTP_PATCH,
     .path = "/api/conversations/{id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = change_conversation,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Change title, settings, the branch shown, pin, archive, trash or tags",
             .body = "ConversationChange",
             .reply = "Conversation",
             .statuses = "200"}},
    {.method = HTTP_DELETE,
     .path = "/api/conversations/{id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = remove_conversation,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Delete a conversation", .statuses = "204"}},
    {.method = HTTP_POST,
     .path = "/api/conversations/{id}/messages",
     .auth = ROUTE_USER,
     .pool = POOL_STREAM,
     .body_limit = ROUTE_CHAT_BODY,
     .handler = conversation_post,
     .scope = SCOPE_HISTORY | SCOPE_INFERENCE,
     .doc = {.summary = "Say something, or ask for another answer",
             .body = "MessageRequest",
             .statuses = "200 409",
             .streams = true}},
    {.method = HTTP_POST,
     .path = "/api/conversations/{id}/fork",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = conversation_fork,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "A new conversation that begins with a message and all above it",
             .body = "ForkRequest",
             .reply = "Conversation",
             .statuses = "201 409"}},
    {.method = HTTP_GET,
     .path = "/api/conversations/{id}/texts",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = conversation_texts,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Messages of a conversation, in pieces",
             .query = "TextsQuery",
             .reply = "MessagePage",
             .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/api/conversations/bulk",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = conversation_bulk,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Change or delete many conversations at once",
             .body = "BulkRequest",
             .reply = "BulkReply",
             .statuses = "200"}},
    {.method = HTTP_GET,
     .path = "/api/conversation-tags",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = conversation_tags,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "List the own tags", .reply = "TagList", .statuses = "200"}},
    {.method = HTTP_DELETE,
     .path = "/api/trash",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = conversation_empty_trash,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Delete what is in the trash, for good",
             .reply = "TrashReply",
             .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/api/conversations/{id}/title",
     .auth = ROUTE_USER,
     .pool = POOL_STREAM,
     .body_limit = ROUTE_JSON_BODY,
     .handler = conversation_title,
     .scope = SCOPE_HISTORY | SCOPE_INFERENCE,
     .doc = {.summary = "Have the model find a title in place of the first line",
             .body = "TitleRequest",
             .reply = "Title",
             .statuses = "200"}},
    {.method = HTTP_GET,
     .path = "/api/defaults",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = conversation_defaults,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Settings with which new conversations begin",
             .reply = "ConversationSettings",
             .statuses = "200"}},
    {.method = HTTP_PATCH,
     .path = "/api/defaults",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = conversation_change_defaults,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Change these settings",
             .body = "ConversationSettings",
             .reply = "ConversationSettings",
             .statuses = "200 404"}},
    {.method = HTTP_DELETE,
     .path = "/api/messages/{id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = conversation_truncate,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Delete a message, with all below it or alone",
             .query = "DeleteQuery",
             .statuses = "204 409"}},
    {.method = HTTP_POST,
     .path = "/api/messages/{id}/versions",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_CHAT_BODY,
     .handler = conversation_version,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Put an edited text beside an answer",
             .body = "VersionRequest",
             .reply = "Message",
             .statuses = "201 409"}},
    {.method = HTTP_GET,
     .path = "/api/messages/{id}/stream",
     .auth = ROUTE_USER,
     .pool = POOL_STREAM,
     .handler = conversation_stream,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Follow an answer from its beginning", .statuses = "200", .streams = true}},
    {.method = HTTP_POST,
     .path = "/api/messages/{id}/stop",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = stop_answer,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Stop an answer; what was generated stays", .statuses = "202"}},
    {0},
};
