/* Forking a conversation, deleting a branch of it. */
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/json/json.h"
#include "fcgi/auth/limits.h"
#include "fcgi/conversations/conversation.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/process/worker.h"
#include "fcgi/recorder/recorder.h"
#include "sql/chats/store_conversations.h"
#include "sql/chats/store_tree.h"
#include "sql/prompts/store_prompt_blocks.h"

static const struct field_row version_fields[] = {{"content", FIELD_READ}, {0}};
static const struct field_row fork_fields[] = {
    {"from_message_id", FIELD_READ}, {"title", FIELD_READ}, {0}};

bool conversation_fork(struct request *r, struct err *e)
{
    int64_t id;
    const char *from = NULL;
    struct store_fork f = {.user_id = r->who.user_id, .storage_bytes = r->who.limits.storage_bytes};
    const cJSON *body = request_json(r, e);
    if (!body || !path_id_param(r, "id", &f.conversation_id, e) ||
        !fields_check(r, body, fork_fields, e) ||
        !json_get_string(body, "from_message_id", &from, e) ||
        !json_get_string(body, "title", &f.title, e))
        return false;
    /* 0 is no message: then the store says whether it is the conversation or the message that is
     * missing. */
    if (from && !path_id_parse(from, &f.message_id))
        f.message_id = 0;
    /* The branch's texts are stored a second time. */
    return limits_storage(r, 1, e) &&
           (store_conversation_fork(r->store, &f, &id, e) || limits_storage_refused(r, e)) &&
           conversation_send(r, 201, id, e);
}

/* Which of a conversation's blocks hold a message is not known, so all of them go, and before the
 * message does: in the other order a kill would leave the blocks of a text that is deleted. */
static bool forget_prompts(struct request *r, int64_t message_id, struct err *e)
{
    struct store_message m;
    int64_t removed;
    return store_message_get(r->store, r->arena,
                             &(struct store_ref){.user_id = r->who.user_id, .id = message_id}, &m,
                             e) &&
           store_prompts_forget(r->store,
                                &(struct store_forgetting){.what = FORGET_CONVERSATION,
                                                           .user_id = r->who.user_id,
                                                           .conversation_id = m.conversation_id},
                                &removed, e);
}

/* below=keep: only the message itself. */
static bool read_below(struct request *r, bool *keep, struct err *e)
{
    const char *below = request_query(r, "below");
    *keep = below && !strcmp(below, "keep");
    return !below || *keep || !strcmp(below, "delete") ||
           err_field(e, ERR_INPUT, "below", "must be delete or keep");
}

bool conversation_truncate(struct request *r, struct err *e)
{
    int64_t id;
    bool keep;
    if (!path_id_param(r, "id", &id, e) || !read_below(r, &keep, e) || !forget_prompts(r, id, e) ||
        !(keep ? store_message_take_out : store_message_remove)(r->store, r->who.user_id, id, e))
        return false;
    recorder_notify(r->worker->run_dir, id); /* its files may belong to nothing now */
    return reply_empty(r, 204);
}

static bool send_version(struct request *r, int64_t id, struct err *e)
{
    struct store_message m;
    if (!store_message_get(r->store, r->arena,
                           &(struct store_ref){.user_id = r->who.user_id, .id = id}, &m, e))
        return false;
    struct buf out = {0};
    conversation_message_json(&out, &m);
    const bool ok = !out.failed && reply_json_buf(r, 201, &out);
    buf_fini(&out);
    return ok || err_set(e, ERR_NOMEM, "no memory for the message");
}

bool conversation_version(struct request *r, struct err *e)
{
    int64_t id;
    struct store_version v = {.user_id = r->who.user_id};
    const cJSON *body = request_json(r, e);
    if (!body || !path_id_param(r, "id", &v.message_id, e) ||
        !fields_check(r, body, version_fields, e) ||
        !json_get_string(body, "content", &v.content, e))
        return false;
    if (!v.content || !*v.content)
        return err_field(e, ERR_INPUT, "content", "is missing");
    if (strlen(v.content) > STORE_CONTENT_BYTES)
        return err_field(e, ERR_LIMIT, "content", "is longer than %d bytes", STORE_CONTENT_BYTES);
    return limits_storage(r, (int64_t)strlen(v.content), e) &&
           store_message_version(r->store, &v, &id, e) && send_version(r, id, e);
}
