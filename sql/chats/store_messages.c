/* Messages: the tree of one conversation, and posting into it. */
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "sql/files/attachments_internal.h"
#include "sql/core/search_internal.h"
#include "sql/core/statement.h"
#include "sql/tools/tools_internal.h"
#include "sql/users/users_internal.h"
#include "sql/chats/messages_internal.h"
#include "sql/chats/store_conversations.h"

static const char *const role_names[ROLE__N] = {"system", "user", "assistant", "tool"};
static const char *const status_names[MESSAGE__N] = {"done", "running", "stopped", "length",
                                                     "error"};

const char *store_role_name(enum store_role r)
{
    return role_names[r];
}

const char *store_status_name(enum store_status s)
{
    return status_names[s];
}

/* The schema's CHECKs let nothing else through. */
static int index_of(const char *name, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(name, names[i]))
            return i;
    return 0;
}

enum store_role store_role_of(const char *name)
{
    return (enum store_role)index_of(name, role_names, ROLE__N);
}

enum store_status store_status_of(const char *name)
{
    return (enum store_status)index_of(name, status_names, MESSAGE__N);
}

/* Columns of every query that gives a whole message: @message_columns, its attachments and runs. */
enum column {
    C_ID,
    C_CONVERSATION,
    C_PARENT,
    C_ROLE,
    C_STATUS,
    C_CONTENT,
    C_REASONING,
    C_CALLS,
    C_CALL_ID,
    C_ERROR,
    C_MODEL,
    C_JOB_KEY,
    C_PARSER,
    C_TIMINGS,
    C_PROMPT,
    C_CACHED,
    C_COMPLETION,
    C_CREATED,
    C_FINISHED,
    C_ERROR_DETAIL,
    C_SOURCES,
    C_ATTACHMENTS,
    C_RUNS
};

static void borrow(sqlite3_stmt *q, struct store_message *m)
{
    *m = (struct store_message){
        .id = sqlite3_column_int64(q, C_ID),
        .conversation_id = sqlite3_column_int64(q, C_CONVERSATION),
        .parent_id = sqlite3_column_int64(q, C_PARENT),
        .role = store_role_of(statement_column_text(q, C_ROLE)),
        .status = store_status_of(statement_column_text(q, C_STATUS)),
        .content = statement_column_text(q, C_CONTENT),
        .content_len = (size_t)sqlite3_column_bytes(q, C_CONTENT),
        .reasoning = statement_column_text(q, C_REASONING),
        .reasoning_len = (size_t)sqlite3_column_bytes(q, C_REASONING),
        .tool_calls = statement_column_optional(q, C_CALLS),
        .error = statement_column_optional(q, C_ERROR),
        .error_detail = statement_column_optional(q, C_ERROR_DETAIL),
        .sources = statement_column_optional(q, C_SOURCES),
        .model = statement_column_optional(q, C_MODEL),
        .job_key = statement_column_optional(q, C_JOB_KEY),
        .parser = statement_column_optional(q, C_PARSER),
        .timings = statement_column_optional(q, C_TIMINGS),
        .has_usage = sqlite3_column_type(q, C_PROMPT) != SQLITE_NULL,
        .prompt_tokens = sqlite3_column_int64(q, C_PROMPT),
        .cached_tokens = sqlite3_column_int64(q, C_CACHED),
        .completion_tokens = sqlite3_column_int64(q, C_COMPLETION),
        .created_at = sqlite3_column_int64(q, C_CREATED),
        .finished_at = sqlite3_column_int64(q, C_FINISHED),
        .attachments = statement_column_text(q, C_ATTACHMENTS),
        .tool_call_id = statement_column_optional(q, C_CALL_ID),
        .runs = statement_column_optional(q, C_RUNS),
    };
}

static bool copy(sqlite3_stmt *q, struct arena *a, struct store_message *m, struct err *e)
{
    borrow(q, m);
    return statement_column_copy(q, C_CONTENT, a, &m->content, e) &&
           statement_column_copy(q, C_REASONING, a, &m->reasoning, e) &&
           statement_column_copy(q, C_CALLS, a, &m->tool_calls, e) &&
           statement_column_copy(q, C_ERROR, a, &m->error, e) &&
           statement_column_copy(q, C_ERROR_DETAIL, a, &m->error_detail, e) &&
           statement_column_copy(q, C_SOURCES, a, &m->sources, e) &&
           statement_column_copy(q, C_MODEL, a, &m->model, e) &&
           statement_column_copy(q, C_JOB_KEY, a, &m->job_key, e) &&
           statement_column_copy(q, C_PARSER, a, &m->parser, e) &&
           statement_column_copy(q, C_TIMINGS, a, &m->timings, e) &&
           statement_column_copy(q, C_ATTACHMENTS, a, &m->attachments, e) &&
           statement_column_copy(q, C_CALL_ID, a, &m->tool_call_id, e) &&
           statement_column_copy(q, C_RUNS, a, &m->runs, e);
}

bool store_message_get(struct store *s, struct arena *a, const struct store_ref *message,
                       struct store_message *out, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_MESSAGE_GET, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", message->user_id);
    statement_bind_int(q, ":id", message->id);
    int rc = statement_step(s, q, e);
    bool ok = rc == 1 ? copy(q, a, out, e)
                      : rc == 0 && err_set(e, ERR_NOTFOUND, "there is no such message");
    statement_end(q);
    return ok;
}

bool store_message_status(struct store *s, int64_t user_id, int64_t id, enum store_status *out,
                          struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_MESSAGE_STATUS, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_int(q, ":id", id);
    int rc = statement_step(s, q, e);
    if (rc == 1)
        *out = index_of(statement_column_text(q, 0), status_names, MESSAGE__N);
    statement_end(q);
    return rc == 1 || (rc == 0 && err_set(e, ERR_NOTFOUND, "there is no such message"));
}

bool messages_each(struct store *s, sqlite3_stmt *q, store_message_fn fn, void *context,
                   struct err *e)
{
    int rc;
    struct store_message m;
    while ((rc = statement_step(s, q, e)) == 1) {
        borrow(q, &m);
        if (!fn(context, &m))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

bool store_message_list(struct store *s, const struct store_message_range *range,
                        store_message_fn fn, void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_MESSAGE_LIST, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", range->user_id);
    statement_bind_int(q, ":conversation_id", range->conversation_id);
    statement_bind_int(q, ":after", range->after);
    statement_bind_int(q, ":limit", range->limit > 0 ? range->limit : -1);
    return messages_each(s, q, fn, context, e);
}

bool store_message_branch(struct store *s, const struct store_branch *branch, store_message_fn fn,
                          void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_MESSAGE_BRANCH, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", branch->user_id);
    statement_bind_int(q, ":conversation_id", branch->conversation_id);
    statement_bind_int(q, ":leaf_id", branch->leaf_id);
    statement_bind_int(q, ":limit", branch->limit > 0 ? branch->limit : -1);
    return messages_each(s, q, fn, context, e);
}

bool store_message_places(struct store *s, const struct store_ref *conversation,
                          store_message_fn fn, void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_MESSAGE_PLACES, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", conversation->user_id);
    statement_bind_int(q, ":conversation_id", conversation->id);
    int rc;
    while ((rc = statement_step(s, q, e)) == 1) {
        const struct store_message m = {
            .id = sqlite3_column_int64(q, 0),
            .conversation_id = conversation->id,
            .parent_id = sqlite3_column_int64(q, 1),
            .role = index_of(statement_column_text(q, 2), role_names, ROLE__N),
            .status = index_of(statement_column_text(q, 3), status_names, MESSAGE__N),
            .content = "",
            .reasoning = "",
        };
        if (!fn(context, &m))
            break;
    }
    statement_end(q);
    return rc >= 0;
}

bool store_message_running(struct store *s, const struct store_ref *conversation,
                           store_message_fn fn, void *context, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_MESSAGE_RUNNING, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", conversation->user_id);
    statement_bind_int(q, ":conversation_id", conversation->id);
    return messages_each(s, q, fn, context, e);
}

/* A user's message follows anything but a user's message, unless the answer to that was deleted; or
 * it begins a new root. Results follow an answer; an answer follows a user's message or a result.
 */
static bool roles_fit(const struct store_post *p, const char *parent, bool followed, struct err *e)
{
    const bool user = !strcmp(parent, "user"), tool = !strcmp(parent, "tool");
    if (p->content ? user && followed : p->n_results && (user || tool))
        return err_field(e, ERR_INPUT, "parent_id", "must be an answer");
    return p->content || p->n_results || user || tool ||
           err_field(e, ERR_INPUT, "parent_id", "must be a user's message");
}

static bool parent_fits(struct store *s, const struct store_post *p, struct err *e)
{
    if (!p->parent_id)
        return (p->content && !p->n_results) ||
               err_field(e, ERR_INPUT, "parent_id", "an answer needs a message to answer");
    sqlite3_stmt *q = statement_begin(s, QUERY_MESSAGE_PARENT, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", p->user_id);
    statement_bind_int(q, ":conversation_id", p->conversation_id);
    statement_bind_int(q, ":id", p->parent_id);
    int rc = statement_step(s, q, e);
    bool ok = false;
    if (rc == 0)
        err_field(e, ERR_INPUT, "parent_id", "is not a message of this conversation");
    else if (rc == 1 && !strcmp(statement_column_text(q, 1), "running"))
        ok = err_set(e, ERR_CONFLICT, "the previous answer is still being written") ||
             err_reason(e, "answer_running");
    else
        ok = rc == 1 &&
             roles_fit(p, statement_column_text(q, 0), sqlite3_column_int64(q, 2) != 0, e);
    statement_end(q);
    return ok;
}

/* One call of store_message_post. */
struct posting {
    struct store *s;
    const struct store_post *post;
    int64_t now;
    struct store_posted *out;
};

/* An INSERT that gives the new id, or nothing when the conversation isn't the user's. */
static bool insert(const struct posting *p, sqlite3_stmt *q, int64_t parent_id, int64_t *id,
                   struct err *e)
{
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", p->post->user_id);
    statement_bind_int(q, ":conversation_id", p->post->conversation_id);
    statement_bind_id(q, ":parent_id", parent_id);
    statement_bind_int(q, ":now", p->now);
    struct err why = {0};
    if (statement_int(p->s, q, id, &why))
        return true;
    if (why.code == ERR_NOTFOUND)
        return err_set(e, ERR_NOTFOUND, "there is no such conversation");
    if (e)
        *e = why;
    return false;
}

static bool insert_user_message(const struct posting *p, struct err *e)
{
    int64_t *id = &p->out->user_message_id;
    const struct store_post *post = p->post;
    sqlite3_stmt *q = statement_begin(p->s, QUERY_MESSAGE_ADD_USER, e);
    if (q)
        statement_bind_text(q, ":content", post->content);
    if (!insert(p, q, post->parent_id, id, e) || !search_add(p->s, *id, e))
        return false;
    const struct store_ref message = {.user_id = post->user_id, .id = *id};
    return attachments_bind(p->s, &message, post->attachments, post->n_attachments, e);
}

static bool insert_results(const struct posting *p, struct err *e)
{
    int64_t parent = p->post->parent_id, *id = &p->out->user_message_id;
    for (int i = 0; i < p->post->n_results; i++) {
        const struct store_result *result = &p->post->results[i];
        sqlite3_stmt *q = statement_begin(p->s, QUERY_MESSAGE_ADD_RESULT, e);
        if (q) {
            statement_bind_text(q, ":content", result->content);
            statement_bind_text(q, ":tool_call_id", result->tool_call_id);
            statement_bind_text(q, ":timings", result->timings);
        }
        if (!insert(p, q, parent, id, e) || !search_add(p->s, *id, e))
            return false;
        parent = *id;
    }
    return !p->post->n_results || tool_runs_clear(p->s, p->post->parent_id, e);
}

static bool insert_answer(const struct posting *p, struct err *e)
{
    const struct store_post *post = p->post;
    sqlite3_stmt *q = statement_begin(p->s, QUERY_MESSAGE_ADD_ANSWER, e);
    if (q) {
        statement_bind_text(q, ":model", post->model);
        statement_bind_text(q, ":job_key", post->job_key);
        statement_bind_text(q, ":parser", post->parser);
        statement_bind_text(q, ":sources", post->sources);
    }
    const bool after_new = post->content || post->n_results;
    const int64_t parent = after_new ? p->out->user_message_id : post->parent_id;
    return insert(p, q, parent, &p->out->message_id, e);
}

static bool post(const struct posting *p, struct err *e)
{
    const struct store_post *new = p->post;
    if (!parent_fits(p->s, new, e) || (new->content && !insert_user_message(p, e)) ||
        !insert_results(p, e) || !insert_answer(p, e))
        return false;
    sqlite3_stmt *q = statement_begin(p->s, QUERY_CONVERSATION_POSTED, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", new->user_id);
    statement_bind_int(q, ":id", new->conversation_id);
    statement_bind_int(q, ":leaf_id", p->out->message_id);
    statement_bind_id(q, ":question", new->beside ? new->parent_id : 0);
    statement_bind_int(q, ":now", p->now);
    statement_bind_text(q, ":title", new->title);
    return statement_run(p->s, q, NULL, e) &&
           users_check_quota(p->s, new->user_id, new->storage_bytes, e);
}

bool store_message_post(struct store *s, const struct store_post *p, struct store_posted *out,
                        struct err *e)
{
    *out = (struct store_posted){0};
    if (p->content && strlen(p->content) > STORE_CONTENT_BYTES)
        return err_field(e, ERR_LIMIT, "content", "is longer than %d bytes", STORE_CONTENT_BYTES);
    if (!store_write_begin(s, e))
        return false;
    const struct posting posting = {.s = s, .post = p, .now = clock_wall_ms(), .out = out};
    return store_write_end(s, post(&posting, e), e);
}

bool store_message_fail(struct store *s, int64_t user_id, int64_t id,
                        const struct store_failure *why, struct err *e)
{
    int changed = 0;
    if (!store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = statement_begin(s, QUERY_MESSAGE_FAIL, e);
    if (q) {
        statement_bind_int(q, ":user_id", user_id);
        statement_bind_int(q, ":id", id);
        statement_bind_text(q, ":error", why->text);
        statement_bind_text(q, ":error_detail", why->detail);
        statement_bind_int(q, ":now", clock_wall_ms());
    }
    return store_write_end(
        s, q && statement_run(s, q, &changed, e) && (!changed || search_add(s, id, e)), e);
}
