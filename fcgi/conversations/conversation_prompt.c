/* conversation.h: the messages of a branch as a prompt. */
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/json/json.h"
#include "fcgi/attachments/attachment.h"
#include "fcgi/conversations/conversation.h"
#include "fcgi/http/request.h"
#include "fcgi/process/worker.h"
#include "fcgi/status/engine_status.h"
#include "sql/chats/store_conversations.h"

struct branch {
    struct request *r;
    cJSON *messages;
    bool running, failed;
    int64_t last_id;
    int64_t room;   /* bytes of pictures that may still be shown */
    struct err why; /* an attachment could not be read; code ERR_NONE: all could */
};

/* Joins a text to the last message where both are of one role, as they are once a message was taken
 * out from between: roles must go on alternating. NULL: it has to be a message of its own. */
static cJSON *join_last(cJSON *messages, const char *role, const char *content)
{
    cJSON *last = cJSON_GetArrayItem(messages, cJSON_GetArraySize(messages) - 1);
    const char *before = json_text(last, "content");
    if (!last || !before || strcmp(json_text(last, "role"), role) || !strcmp(role, "tool") ||
        json_member(last, "tool_calls"))
        return NULL;
    struct buf both = {0};
    buf_printf(&both, "%s\n\n%s", before, content);
    const bool ok = !both.failed && cJSON_ReplaceItemInObjectCaseSensitive(
                                        last, "content", cJSON_CreateString(both.data));
    buf_fini(&both);
    return ok ? last : NULL;
}

static cJSON *add_message(cJSON *messages, const char *role, const char *content)
{
    cJSON *m = join_last(messages, role, content);
    if (m)
        return m;
    m = cJSON_CreateObject();
    if (!m || !cJSON_AddItemToArray(messages, m) || !cJSON_AddStringToObject(m, "role", role) ||
        !cJSON_AddStringToObject(m, "content", content))
        return NULL;
    return m;
}

/* A message of pictures and a text; parts is taken over. Without pictures it is the text. */
static cJSON *add_parts(cJSON *messages, const char *role, cJSON *parts, const char *content)
{
    if (!parts || !parts->child) {
        cJSON_Delete(parts);
        return add_message(messages, role, content);
    }
    cJSON *m = cJSON_CreateObject(), *text = *content ? cJSON_CreateObject() : NULL;
    bool ok = cJSON_AddItemToArray(messages, m) && cJSON_AddStringToObject(m, "role", role) &&
              cJSON_AddItemToObject(m, "content", parts);
    if (!ok)
        cJSON_Delete(parts);
    ok = ok && (!text || (cJSON_AddItemToArray(parts, text) &&
                          cJSON_AddStringToObject(text, "type", "text") &&
                          cJSON_AddStringToObject(text, "text", content)));
    return ok ? m : NULL;
}

/* The content with the message's files before it. */
static cJSON *add_with_files(struct branch *b, const struct store_message *row)
{
    struct buf framed = {0};
    cJSON *m = NULL, *parts = NULL, *rows = NULL;
    if (attachments_are_seen(b->r)) {
        parts = cJSON_CreateArray();
        rows = json_parse(row->attachments, strlen(row->attachments), NULL, &b->why);
    }
    if (attachments_pictures_of(b->r, rows, &b->room, parts, &b->why) &&
        attachments_prompt_of(b->r, row->id, row->content, &framed, &b->why)) {
        m = add_parts(b->messages, store_role_name(row->role), parts,
                      framed.len ? framed.data : row->content);
        parts = NULL;
    }
    cJSON_Delete(parts);
    cJSON_Delete(rows);
    buf_fini(&framed);
    return m;
}

/* Failed answers stay in, with what they have: roles must go on alternating. */
static bool add_row(void *context, const struct store_message *row)
{
    struct branch *b = context;
    const bool files =
        row->role == ROLE_USER && strcmp(row->attachments, "[]") && *row->attachments;
    cJSON *m = files ? add_with_files(b, row)
                     : add_message(b->messages, store_role_name(row->role), row->content);
    b->last_id = row->id;
    b->running |= row->status == MESSAGE_RUNNING;
    b->failed |= !m || (*row->reasoning && !json_member(m, "reasoning_content") &&
                        !cJSON_AddStringToObject(m, "reasoning_content", row->reasoning));
    b->failed |=
        row->tool_call_id && !cJSON_AddStringToObject(m, "tool_call_id", row->tool_call_id);
    if (m && row->tool_calls) {
        cJSON *calls = json_parse(row->tool_calls, strlen(row->tool_calls), NULL, NULL);
        b->failed |= !calls || !cJSON_AddItemToObject(m, "tool_calls", calls);
    }
    return !b->failed;
}

static void add_result(struct branch *b, const char *id, const char *content)
{
    cJSON *m = add_message(b->messages, "tool", content);
    b->failed |= !m || !cJSON_AddStringToObject(m, "tool_call_id", id);
}

/* Adds the current question, which is in no row yet. */
static bool add_question(struct request *r, const struct conversation_ask *ask, struct branch *b,
                         struct err *e)
{
    struct buf framed = {0};
    cJSON *parts = cJSON_CreateArray();
    bool ok = attachments_prompt(r, &ask->attachments, ask->content, &framed, e) &&
              attachments_pictures(r, &ask->attachments, parts, e);
    if (ok)
        b->failed |=
            !add_parts(b->messages, "user", parts, framed.len ? framed.data : ask->content);
    else
        cJSON_Delete(parts);
    buf_fini(&framed);
    return ok;
}

static bool read_branch(struct request *r, const struct conversation_ask *ask, struct branch *b,
                        struct err *e)
{
    if (ask->leaf &&
        !store_message_branch(r->store,
                              &(struct store_branch){.user_id = r->who.user_id,
                                                     .conversation_id = ask->conversation_id,
                                                     .leaf_id = ask->leaf},
                              add_row, b, e))
        return false;
    if (b->why.code) {
        *e = b->why;
        return false;
    }
    if (ask->leaf && b->last_id != ask->leaf && !b->failed)
        return err_field(e, ERR_INPUT, "parent_id", "is not a message of this conversation");
    if (b->running)
        return err_set(e, ERR_CONFLICT, "the previous answer is still being written") ||
               err_reason(e, "answer_running");
    if (ask->content && !add_question(r, ask, b, e))
        return false;
    for (int i = 0; i < ask->n_results; i++)
        add_result(b, ask->results[i].tool_call_id, ask->results[i].content);
    return !b->failed || err_set(e, ERR_NOMEM, "no memory for the prompt's messages");
}

/* Before anything is committed: a prompt that can't be answered is the request's error, not an
 * answer. */
bool conversation_fits(struct request *r, const struct prompt *p, struct err *e)
{
    struct status_page page;
    if (!engine_status_read(r, &page) || page.n_ctx <= 0 || p->ids.n < (size_t)page.n_ctx)
        return true;
    r->error_override.code = "context_length_exceeded";
    err_set(e, ERR_LIMIT, "the conversation has %zu tokens, and the model's context holds %d",
            p->ids.n, (int)page.n_ctx);
    err_reason(e, "context_too_long");
    err_param(e, "tokens", (int64_t)p->ids.n);
    return err_param(e, "limit", page.n_ctx);
}

cJSON *conversation_messages(struct request *r, const struct conversation_ask *ask, struct err *e)
{
    const char *system = NULL;
    struct branch b = {.r = r, .messages = cJSON_CreateArray(), .room = ATTACHMENT_PICTURE_BYTES};
    if (!b.messages) {
        err_set(e, ERR_NOMEM, "no memory for the prompt");
        return NULL;
    }
    bool ok = json_get_string(ask->settings, "system", &system, e);
    b.failed = ok && system && *system && !add_message(b.messages, "system", system);
    if (ok && read_branch(r, ask, &b, e))
        return b.messages;
    cJSON_Delete(b.messages);
    return NULL;
}

bool conversation_render(struct request *r, const struct conversation_ask *ask, struct prompt *out,
                         struct err *e)
{
    struct prompt_input in = {.messages = conversation_messages(r, ask, e),
                              .kwargs = ask->kwargs,
                              .tools = json_member(ask->settings, "tools"),
                              .generic_tools = prompt_generic_tools(r)};
    bool ok = in.messages && prompt_make(r->worker->text, &in, out, e);
    cJSON_Delete(in.messages);
    return ok;
}

bool conversation_prompt(struct request *r, const struct conversation_ask *ask, struct prompt *out,
                         struct err *e)
{
    return conversation_render(r, ask, out, e) && conversation_fits(r, out, e);
}
