/* What is kept of a user's prompts on disk, and forgetting it: /api/prompt-cache for all of it, or
 * what requests with one prompt_cache_key left; /api/conversations/{id}/prompt-cache for a
 * conversation. A row that is gone is not found any more; the recorder has the engine remove the
 * bytes. */
#include "fcgi/conversations/conversation.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/stored_prompt.h"
#include "fcgi/process/worker.h"
#include "fcgi/recorder/recorder.h"
#include "sql/chats/store_conversations.h"
#include "sql/prompts/store_prompt_blocks.h"

static bool send_kept(struct request *r, const struct store_kept *kept)
{
    struct buf out = {0};
    buf_printf(&out, "{\"tokens\":%lld,\"bytes\":%lld}",
               (long long)kept->blocks * STORE_BLOCK_TOKENS, (long long)kept->bytes);
    reply_json_buf(r, 200, &out);
    buf_fini(&out);
    return true;
}

static bool forget(struct request *r, const struct store_forgetting *f, struct err *e)
{
    struct buf out = {0};
    int64_t removed = 0;
    if (!store_prompts_forget(r->store, f, &removed, e))
        return false;
    if (removed)
        recorder_notify(r->worker->run_dir, 0);
    buf_printf(&out, "{\"forgotten_tokens\":%lld}", (long long)removed * STORE_BLOCK_TOKENS);
    reply_json_buf(r, 200, &out);
    buf_fini(&out);
    return true;
}

/* Another user's, or none: not found. */
static bool own_conversation(struct request *r, int64_t *id, struct err *e)
{
    struct store_conversation c;
    return path_id_param(r, "id", id, e) &&
           store_conversation_get(r->store, r->arena,
                                  &(struct store_ref){.user_id = r->who.user_id, .id = *id}, &c, e);
}

static bool of_conversation(struct request *r, struct err *e)
{
    int64_t id;
    struct store_kept kept;
    return own_conversation(r, &id, e) &&
           store_kept_of_conversation(r->store, r->who.user_id, id, &kept, e) &&
           send_kept(r, &kept);
}

static bool forget_conversation(struct request *r, struct err *e)
{
    int64_t id;
    return own_conversation(r, &id, e) &&
           forget(r,
                  &(struct store_forgetting){.what = FORGET_CONVERSATION,
                                             .user_id = r->who.user_id,
                                             .conversation_id = id},
                  e);
}

static bool of_user(struct request *r, struct err *e)
{
    struct store_kept kept;
    return store_kept_of_user(r->store, r->who.user_id, &kept, e) && send_kept(r, &kept);
}

static bool forget_user(struct request *r, struct err *e)
{
    char label[ENGINE_CACHE_OWNER_SIZE];
    struct store_forgetting f = {.what = FORGET_USER, .user_id = r->who.user_id};
    const char *key = request_query(r, "key");
    if (key && !*key)
        return err_field(e, ERR_INPUT, "key", "is empty");
    if (key) {
        stored_prompt_label(label, key);
        f.what = FORGET_LABEL;
        f.label = label;
    }
    return forget(r, &f, e);
}

const struct route api_prompt_cache_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/conversations/{id}/prompt-cache",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = of_conversation,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "What of a conversation is kept in the prompt cache on disk",
             .reply = "PromptCacheKept",
             .statuses = "200"}},
    {.method = HTTP_DELETE,
     .path = "/api/conversations/{id}/prompt-cache",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = forget_conversation,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Remove a conversation's prompts from the cache on disk",
             .reply = "PromptCacheForgotten",
             .statuses = "200"}},
    {.method = HTTP_GET,
     .path = "/api/prompt-cache",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = of_user,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "What of the own prompts is kept in the prompt cache on disk",
             .reply = "PromptCacheKept",
             .statuses = "200"}},
    {.method = HTTP_DELETE,
     .path = "/api/prompt-cache",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = forget_user,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Remove the own prompts, or those of one prompt_cache_key, from there",
             .query = "PromptCacheQuery",
             .reply = "PromptCacheForgotten",
             .statuses = "200"}},
    {0},
};
