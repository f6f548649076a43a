/* Forking a conversation, deleting a branch of it. */
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

bool conversation_truncate(struct request *r, struct err *e)
{
    int64_t id;
    if (!path_id_param(r, "id", &id, e) || !forget_prompts(r, id, e) ||
        !store_message_remove(r->store, r->who.user_id, id, e))
        return false;
    recorder_notify(r->worker->run_dir, id); /* its files may belong to nothing now */
    return reply_empty(r, 204);
}
