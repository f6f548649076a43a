/* conversation.h: the messages of a branch as a prompt. */
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/json/json.h"
#include "fcgi/attachments/attachment.h"
#include "fcgi/conversations/conversation.h"
#include "fcgi/http/request.h"
#include "fcgi/process/worker.h"
#include "fcgi/projects/project.h"
#include "fcgi/status/engine_status.h"
#include "sql/chats/store_conversations.h"

#define SHORT_QUESTION 60 /* bytes */
#define ROOM_TOKENS 256   /* for an answer, beside files that are given whole */

struct branch {
    struct request *r;
    cJSON *messages;
    cJSON *question; /* the last user's message, until its passages stand before it */
    cJSON *earlier;  /* its text, and that of the question before: strings, for a search */
    int last_number; /* of passages so far */
    bool running, failed;
    int64_t last_id;
    int64_t question_id; /* of the last question, where it is in a row: its pictures have their own
                            room; 0: it is not */
    int64_t room;        /* bytes of pictures that may still be shown */
    struct err why;      /* an attachment could not be read; code ERR_NONE: all could */
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
    int64_t own = ATTACHMENT_PICTURE_BYTES;
    int64_t *room = row->id == b->question_id ? &own : &b->room;
    if (attachments_are_seen(b->r)) {
        parts = cJSON_CreateArray();
        rows = json_parse(row->attachments, strlen(row->attachments), NULL, &b->why);
    }
    if (attachments_pictures_of(b->r, rows, room, parts, &b->why) &&
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

/* Before the message's text, which stands behind its pictures where it has some. */
static bool put_before(cJSON *message, struct buf *text)
{
    cJSON *content = cJSON_GetObjectItemCaseSensitive(message, "content"), *holder = message;
    const char *name = "content";
    if (cJSON_IsArray(content)) {
        name = "text";
        holder = cJSON_GetArrayItem(content, cJSON_GetArraySize(content) - 1);
        if (!json_text(holder, name)) { /* pictures alone */
            cJSON *part = cJSON_CreateObject();
            return cJSON_AddItemToArray(content, part) &&
                   cJSON_AddStringToObject(part, "type", name) &&
                   cJSON_AddStringToObject(part, name, text->data);
        }
    }
    buf_puts(text, json_text(holder, name));
    cJSON *whole = text->failed ? NULL : cJSON_CreateString(text->data);
    return whole && cJSON_ReplaceItemInObjectCaseSensitive(holder, name, whole);
}

/* Passages that a question was given with stand before it again in each later prompt. */
static void put_passages(struct branch *b, const cJSON *sources)
{
    struct buf text = {0};
    const int last = project_last_number(sources);
    if (last > b->last_number)
        b->last_number = last;
    b->failed |= !project_put_passages(&text, sources);
    if (text.len && b->question && !b->failed) {
        b->failed |= !put_before(b->question, &text);
        b->question = NULL;
    }
    buf_fini(&text);
}

static void put_stored(struct branch *b, const char *text)
{
    cJSON *sources = json_parse(text, strlen(text), NULL, NULL);
    b->failed |= !sources;
    if (sources)
        put_passages(b, sources);
    cJSON_Delete(sources);
}

static void note_question(struct branch *b, cJSON *message, const char *content)
{
    b->question = message;
    b->failed |= !cJSON_AddItemToArray(b->earlier, cJSON_CreateString(content));
    while (cJSON_GetArraySize(b->earlier) > 2)
        cJSON_DeleteItemFromArray(b->earlier, 0);
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
    if (row->role == ROLE_USER)
        note_question(b, m, row->content);
    if (row->sources)
        put_stored(b, row->sources);
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
    if (ok) {
        cJSON *m = add_parts(b->messages, "user", parts, framed.len ? framed.data : ask->content);
        b->failed |= !m;
        note_question(b, m, ask->content);
    } else {
        cJSON_Delete(parts);
    }
    buf_fini(&framed);
    return ok;
}

static bool find_question(void *context, const struct store_message *row)
{
    struct branch *b = context;
    if (row->role == ROLE_USER)
        b->question_id = row->id;
    return true;
}

static bool read_branch(struct request *r, const struct conversation_ask *ask, struct branch *b,
                        struct err *e)
{
    const struct store_branch rows = {
        .user_id = r->who.user_id, .conversation_id = ask->conversation_id, .leaf_id = ask->leaf};
    if (ask->leaf && !ask->content && attachments_are_seen(r) &&
        !store_message_branch(r->store, &rows, find_question, b, e))
        return false;
    if (ask->leaf && !store_message_branch(r->store, &rows, add_row, b, e))
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

/* The project's beginning, then the user's own prompt, as one message. */
static bool add_system(struct branch *b, const struct project_given *g, const cJSON *settings,
                       struct err *e)
{
    const char *own = NULL;
    struct buf text = {0};
    if (!json_get_string(settings, "system", &own, e))
        return false;
    if (g->preamble.len)
        buf_append(&text, g->preamble.data, g->preamble.len);
    if (own && *own)
        buf_printf(&text, "%s%s", text.len ? "\n\n" : "", own);
    b->failed |= text.failed || (text.len && !add_message(b->messages, "system", text.data));
    buf_fini(&text);
    return true;
}

/* What the question alone does not say ("and the second one?") the one before may. */
static bool search_project(struct request *r, struct branch *b, struct project_given *g,
                           struct err *e)
{
    struct buf text = {0};
    const int n = cJSON_GetArraySize(b->earlier);
    const char *last = cJSON_GetStringValue(cJSON_GetArrayItem(b->earlier, n - 1));
    buf_puts(&text, last ? last : "");
    if (n > 1 && text.len < SHORT_QUESTION)
        buf_printf(&text, "\n%s", cJSON_GetStringValue(cJSON_GetArrayItem(b->earlier, 0)));
    bool ok = text.failed ? err_set(e, ERR_NOMEM, "no memory for the question")
                          : project_search(r, g, text.len ? text.data : "", b->last_number + 1, e);
    buf_fini(&text);
    if (ok)
        put_passages(b, g->sources);
    return ok && (!b->failed || err_set(e, ERR_NOMEM, "no memory for the prompt's messages"));
}

static bool read_all(struct request *r, const struct conversation_ask *ask, struct branch *b,
                     struct project_given *g, struct err *e)
{
    if (!add_system(b, g, ask->settings, e) || !read_branch(r, ask, b, e))
        return false;
    if (ask->given)
        put_stored(b, ask->given);
    else if (g->files.n && !g->whole && b->question && !ask->n_results &&
             !search_project(r, b, g, e))
        return false;
    if (ask->sources) {
        ask->sources->len = 0;
        b->failed |= g->preamble.len && !json_write(ask->sources, g->sources);
    }
    return !b->failed || err_set(e, ERR_NOMEM, "no memory for the prompt's messages");
}

cJSON *conversation_messages(struct request *r, const struct conversation_ask *ask, bool *whole,
                             struct err *e)
{
    struct project_given g;
    struct branch b = {.r = r,
                       .messages = cJSON_CreateArray(),
                       .earlier = cJSON_CreateArray(),
                       .room = ATTACHMENT_PICTURE_BYTES};
    bool ok = b.messages && b.earlier;
    if (!ok)
        err_set(e, ERR_NOMEM, "no memory for the prompt");
    const struct project_place at = {.conversation_id = ask->conversation_id,
                                     .project_id = ask->project_id,
                                     .search = ask->search};
    ok = project_give(r, &at, &g, ok ? e : NULL) && ok && read_all(r, ask, &b, &g, e);
    *whole = g.whole;
    project_given_fini(&g);
    cJSON_Delete(b.earlier);
    if (ok)
        return b.messages;
    cJSON_Delete(b.messages);
    return NULL;
}

bool conversation_leaves_room(struct request *r, int64_t tokens)
{
    return tokens + ROOM_TOKENS <= project_context(r);
}

/* Where a long chat leaves no room for the project's files in their whole, passages of them serve.
 */
bool conversation_render(struct request *r, const struct conversation_ask *ask, struct prompt *out,
                         struct err *e)
{
    bool whole;
    struct conversation_ask again = *ask;
    struct prompt_input in = {.messages = conversation_messages(r, ask, &whole, e),
                              .kwargs = ask->kwargs,
                              .tools = json_member(ask->settings, "tools"),
                              .generic_tools = prompt_generic_tools(r)};
    bool ok = in.messages && prompt_make(r->worker->text, &in, out, e);
    cJSON_Delete(in.messages);
    if (!ok || !whole || ask->search || conversation_leaves_room(r, (int64_t)out->ids.n))
        return ok;
    prompt_fini(out);
    *out = (struct prompt){0};
    again.search = true;
    return conversation_render(r, &again, out, e);
}

bool conversation_prompt(struct request *r, const struct conversation_ask *ask, struct prompt *out,
                         struct err *e)
{
    return conversation_render(r, ask, out, e) && conversation_fits(r, out, e);
}
