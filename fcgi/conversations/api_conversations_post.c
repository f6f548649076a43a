/* POST /api/conversations/{id}/messages: a message or the results of calls and their answer,
 * another answer to a message, or an answer that is resumed. Everything that can be refused is
 * refused before the commit; after it the row tells what became of the answer. */
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "engine/chat/chat_parser.h"
#include "engine/chat/content_gate.h"
#include "fcgi/attachments/attachment.h"
#include "fcgi/auth/limits.h"
#include "fcgi/conversations/conversation.h"
#include "fcgi/conversations/title.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/cache_scope.h"
#include "fcgi/inference/local/local_gate.h"
#include "fcgi/inference/model_gate.h"
#include "fcgi/inference/model_name.h"
#include "fcgi/http/relay_error.h"
#include "fcgi/inference/settings.h"
#include "fcgi/inference/stored_answer.h"
#include "fcgi/inference/stored_prompt.h"
#include "fcgi/openai/chat_relay.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/process/local_model.h"
#include "fcgi/process/worker.h"
#include "fcgi/recorder/recorder.h"
#include "fcgi/tools/tool_offer.h"
#include "sql/chats/store_conversations.h"
#include "sql/core/secret.h"
#include "sql/files/store_attachments.h"
#include "sql/models/store_models.h"

struct posting {
    int64_t conversation_id;
    struct store_conversation conversation;
    const char *content; /* NULL: another answer, results, or one that is resumed */
    int64_t parent_id;
    int64_t attachments[STORE_MESSAGE_ATTACHMENTS];
    int n_attachments;
    struct conversation_results results;
    struct store_message again; /* id 0: a new answer; else this one is resumed */
    struct conversation_resume earlier;
    bool of_question, once; /* asked by the question's own id; of a model that answers this alone */
    bool new_settings;
    cJSON *settings, *kwargs;
    cJSON *offered; /* the settings with the tools of servers */
    struct buf grammar;
    struct prompt prompt;
    struct buf sources; /* what the answer is given of its project */
    struct buf relay;   /* what is sent on where another server answers (r->model) */
    struct buf parser;  /* of the answer's row */
    uint64_t affinity;
    int64_t most_tokens; /* of a relayed answer; -1: nothing says */
};

static const struct field_row fields[] = {
    {"content", FIELD_READ},     {"parent_id", FIELD_READ},    {"regenerate", FIELD_READ},
    {"continue", FIELD_READ},    {"tool_results", FIELD_READ}, {"settings", FIELD_READ},
    {"attachments", FIELD_READ}, {"model", FIELD_READ},        {0}};

/* Another answer to the same question; to a user's message itself when it has none yet. */
static bool read_regenerate(struct request *r, struct posting *p, const char *text, struct err *e)
{
    int64_t id;
    struct store_message m;
    struct err why = {0};
    if (!path_id_parse(text, &id) ||
        !store_message_get(r->store, r->arena,
                           &(struct store_ref){.user_id = r->who.user_id, .id = id}, &m, &why) ||
        m.conversation_id != p->conversation_id)
        return err_field(e, ERR_INPUT, "regenerate", "is not a message of this conversation");
    p->of_question = m.role == ROLE_USER;
    p->parent_id = p->of_question ? m.id : m.parent_id;
    return true;
}

static bool read_continue(struct request *r, struct posting *p, const char *text, struct err *e)
{
    int64_t id;
    struct err why = {0};
    if (!path_id_parse(text, &id) ||
        !store_message_get(r->store, r->arena,
                           &(struct store_ref){.user_id = r->who.user_id, .id = id}, &p->again,
                           &why) ||
        p->again.conversation_id != p->conversation_id)
        return err_field(e, ERR_INPUT, "continue", "is not a message of this conversation");
    p->parent_id = p->again.parent_id;
    return conversation_can_resume(r, &p->again, &p->earlier, e);
}

static bool read_parent(const cJSON *body, struct posting *p, struct err *e)
{
    const char *text = NULL;
    const cJSON *sent = cJSON_GetObjectItemCaseSensitive(body, "parent_id");
    p->parent_id = sent ? 0 : p->conversation.leaf_id; /* null: a new root */
    if (!json_get_string(body, "parent_id", &text, e))
        return false;
    return !text || path_id_parse(text, &p->parent_id) ||
           err_field(e, ERR_INPUT, "parent_id", "is not a message of this conversation");
}

/* What the answer is made with. Another model answers once: nothing of the conversation changes. */
static bool read_settings(struct request *r, struct posting *p, const cJSON *body, struct err *e)
{
    const cJSON *settings = NULL;
    const char *model = NULL;
    cJSON *once = NULL;
    if (!json_get_object(body, "settings", &settings, e) ||
        !json_get_string(body, "model", &model, e))
        return false;
    if (model && settings)
        return err_field(e, ERR_INPUT, "model",
                         "can't go along with settings, which have their own");
    if (model && !(once = conversation_for_model(r, p->conversation.settings, model, e)))
        return false;
    p->once = model != NULL;
    p->new_settings = settings != NULL;
    p->settings = conversation_settings(r, p->conversation.settings, once ? once : settings, e);
    cJSON_Delete(once);
    if (p->settings && p->again.id && r->model)
        return err_field(e, ERR_UNSUPPORTED, "continue",
                         "an answer of another server can't be continued") ||
               err_reason(e, "continue_relayed");
    return p->settings != NULL;
}

static bool read_body(struct request *r, struct posting *p, struct err *e)
{
    const cJSON *body = request_json(r, e);
    const char *regenerate = NULL, *again = NULL;
    const cJSON *results = NULL;
    if (!body || !fields_check(r, body, fields, e) ||
        !store_conversation_get(
            r->store, r->arena,
            &(struct store_ref){.user_id = r->who.user_id, .id = p->conversation_id},
            &p->conversation, e) ||
        !json_get_string(body, "content", &p->content, e) ||
        !json_get_string(body, "regenerate", &regenerate, e) ||
        !json_get_string(body, "continue", &again, e) ||
        !json_get_array(body, "tool_results", &results, e) ||
        !attachments_read(r, body, p->attachments, &p->n_attachments, e))
        return false;
    if (!!p->content + !!regenerate + !!again + !!results != 1)
        return err_field(e, ERR_INPUT, "content",
                         "send one of content, regenerate, continue and tool_results");
    if (p->n_attachments && !p->content)
        return err_field(e, ERR_INPUT, "attachments", "go along with content");
    if (p->content && !p->n_attachments && strspn(p->content, " \t\r\n") == strlen(p->content))
        return err_field(e, ERR_INPUT, "content", "is empty");
    if (p->content && strlen(p->content) > STORE_CONTENT_BYTES)
        return err_field(e, ERR_LIMIT, "content", "is longer than %d bytes", STORE_CONTENT_BYTES);
    if (regenerate ? !read_regenerate(r, p, regenerate, e)
        : again    ? !read_continue(r, p, again, e)
                   : !read_parent(body, p, e))
        return false;
    const struct conversation_place parent = {.conversation_id = p->conversation_id,
                                              .message_id = p->parent_id};
    if (results && !conversation_read_results(r, &parent, results, &p->results, e))
        return false;
    if (!read_settings(r, p, body, e))
        return false;
    /* The same prompt as before, though the switch was turned meanwhile. */
    p->kwargs = p->earlier.kwargs ? cJSON_Duplicate(p->earlier.kwargs, true)
                                  : conversation_kwargs(r, p->settings, e);
    p->offered = tool_offer_settings(r, p->settings, e);
    return p->offered && (p->kwargs || err_set(e, ERR_NOMEM, "no memory for the settings"));
}

/* What another server is asked: the same messages and settings, without a template of ours. */
static bool put_relay(struct request *r, struct posting *p, const struct conversation_ask *ask,
                      bool *whole, struct err *e)
{
    const cJSON *tools = json_member(p->offered, "tools"); /* those of servers among them */
    if (cJSON_GetArraySize(tools) == 0)
        tools = NULL;
    if (tools && !r->model->tools)
        return err_field(e, ERR_UNSUPPORTED, "tools", "this model does not call functions") ||
               err_reason(e, "model_without_tools");
    struct chat_request c = {.source = "messages",
                             .messages = conversation_messages(r, ask, whole, e),
                             .tools = tools,
                             .kwargs = p->kwargs,
                             .given = p->settings,
                             .constraint = {.schema = json_member(p->settings, "json_schema")},
                             .n = 1,
                             .top_logprobs = -1,
                             .prompt_logprobs = -1};
    settings_begin(&c.settings, r);
    bool ok = c.messages && settings_read(&c.settings, p->settings, NULL, r->arena, e) &&
              chat_relay_put(&p->relay, r, &c, e);
    p->affinity = ok ? chat_relay_affinity(r, c.messages) : 0;
    p->most_tokens = chat_relay_most(&c);
    p->prompt.format = CHAT_RELAYED_FORMAT;
    cJSON_Delete(c.messages);
    return ok;
}

/* A quarter is added to the estimate: the upstream's own count may be higher. */
static bool make_relay(struct request *r, struct posting *p, const struct conversation_ask *ask,
                       struct err *e)
{
    struct conversation_ask again = *ask;
    bool whole = false;
    if (!put_relay(r, p, ask, &whole, e))
        return false;
    if (!whole || conversation_leaves_room(r, chat_relay_tokens(&p->relay) * 5 / 4))
        return true;
    buf_clear(&p->relay);
    again.search = true;
    return put_relay(r, p, &again, &whole, e);
}

static int64_t prompt_tokens(const struct request *r, const struct posting *p)
{
    return r->model ? chat_relay_tokens(&p->relay) : (int64_t)p->prompt.ids.n;
}

static bool make_prompt(struct request *r, struct posting *p, struct err *e)
{
    const struct conversation_ask ask = {
        .conversation_id = p->conversation_id,
        .leaf = p->parent_id,
        .content = p->content,
        .results = p->results.at,
        .n_results = p->results.n,
        .attachments = {.ids = p->attachments, .n = p->n_attachments},
        .settings = p->offered,
        .kwargs = p->kwargs,
        .given = !p->again.id       ? NULL
                 : p->again.sources ? p->again.sources
                                    : "{}",
        .sources = &p->sources};
    if (r->model)
        return make_relay(r, p, &ask, e);
    if (!conversation_prompt(r, &ask, &p->prompt, e))
        return false;
    return p->again.id ? conversation_resume(r, &p->again, &p->prompt, &p->earlier, e)
                       : conversation_grammar(r, p->offered, &p->prompt, &p->grammar, e);
}

static bool keep_settings(struct request *r, const struct posting *p, struct err *e)
{
    struct buf text = {0};
    bool ok = true;
    if (p->new_settings) {
        ok = json_write(&text, p->settings) || err_set(e, ERR_NOMEM, "no memory for the settings");
        ok = ok && store_conversation_change(
                       r->store, r->who.user_id, p->conversation_id,
                       &(struct store_conversation_change){.settings = text.data}, e);
    }
    buf_fini(&text);
    return ok;
}

/* A message without words is called by its first file. */
static bool title_of_file(struct request *r, const struct posting *p, char title[TITLE_SIZE],
                          struct err *e)
{
    struct store_attachment a;
    if (!store_attachment_get(
            r->store, r->arena,
            &(struct store_ref){.user_id = r->who.user_id, .id = p->attachments[0]}, &a, e))
        return false;
    title_make(a.name, title);
    return true;
}

struct job_row { /* how the answer's row names its job, and how the job's text is read */
    const char *key, *parser;
};

static bool write_rows(struct request *r, const struct posting *p, const struct job_row *job,
                       struct store_posted *out, struct err *e)
{
    char title[TITLE_SIZE] = "";
    if (p->again.id) {
        *out = (struct store_posted){.message_id = p->again.id};
        return store_message_continue(
            r->store,
            &(struct store_continue){.user_id = r->who.user_id,
                                     .conversation_id = p->conversation_id,
                                     .message_id = p->again.id,
                                     .model = model_name_of(r),
                                     .job_key = job->key,
                                     .parser = job->parser,
                                     .tokens = p->earlier.ids.at,
                                     .n_tokens = p->earlier.ids.n},
            e);
    }
    if (p->content)
        title_make(p->content, title);
    if (!title[0] && p->n_attachments && !title_of_file(r, p, title, e))
        return false;
    return store_message_post(
        r->store,
        &(struct store_post){.user_id = r->who.user_id,
                             .conversation_id = p->conversation_id,
                             .parent_id = p->parent_id,
                             .content = p->content,
                             .attachments = p->attachments,
                             .n_attachments = p->n_attachments,
                             .results = p->results.at,
                             .n_results = p->results.n,
                             .title = title[0] ? title : NULL,
                             .model = model_name_of(r),
                             .job_key = job->key,
                             .parser = job->parser,
                             .beside = p->of_question && p->once,
                             .sources = p->sources.len ? p->sources.data : NULL,
                             .storage_bytes = r->who.limits.storage_bytes},
        out, e);
}

static bool commit(struct request *r, struct posting *p, const char *key, struct store_posted *out,
                   struct err *e)
{
    struct stored_answer_parser about = {.format = p->prompt.format,
                                         .opens_reasoning = p->prompt.opens_reasoning,
                                         .tools = json_member(p->offered, "tools"),
                                         .kwargs = p->kwargs,
                                         .constrained = p->grammar.len > 0,
                                         .prompt_estimate =
                                             r->model ? (int)prompt_tokens(r, p) : 0};
    if (p->again.id) {
        about.prefix = p->earlier.text.data ? p->earlier.text.data : "";
        about.prefix_len = p->earlier.text.len;
        about.earlier_tokens = (int)p->earlier.ids.n;
        about.earlier_reasoning_ms = p->earlier.reasoning_ms;
        about.began_at = clock_wall_ms();
    }
    return (stored_answer_parser_json(&p->parser, &about) ||
            err_set(e, ERR_NOMEM, "no memory for the answer")) &&
           write_rows(r, p, &(struct job_row){.key = key, .parser = p->parser.data}, out, e);
}

/* Splits off the answer's reasoning when the answer continues an earlier text. */
static void tell_answer(const struct posting *p, struct engine_job_params *job)
{
    struct content_gate gate;
    prompt_tell_answer(&p->prompt, job);
    content_gate_init(&gate, job->answer_format, (enum content_begin)job->answer_begins);
    for (size_t i = 0; p->again.id && i < p->earlier.text.len; i++)
        content_gate_byte(&gate, p->earlier.text.data[i]);
    job->answer_begins = content_gate_place(&gate);
}

static struct engine_job *submit_relay(struct request *r, const struct posting *p, const char *key,
                                       struct err *e)
{
    struct engine_relay relay = {.model = r->model->id,
                                 .request = p->relay.data,
                                 .n_request = p->relay.len,
                                 .most_tokens = p->most_tokens > 0 ? p->most_tokens : 0,
                                 .user = (uint64_t)r->who.user_id,
                                 .affinity = p->affinity,
                                 .detached = true};
    snprintf(relay.key, sizeof relay.key, "%s", key);
    snprintf(relay.request_id, sizeof relay.request_id, "%s", r->id);
    struct engine_job *job = engine_relay(r->worker->relay_socket, &relay, &r->relay_kept, e);
    if (!job)
        relay_error_read(e);
    return job;
}

static struct engine_job *submit(struct request *r, const struct posting *p, const char *key,
                                 struct err *e)
{
    struct settings s;
    struct engine_job_params job = {.prompt = p->prompt.ids.at,
                                    .n_prompt = (int32_t)p->prompt.ids.n,
                                    .top_logprobs = -1,
                                    .special_text = prompt_wants_special_text(&p->prompt),
                                    .grammar = p->grammar.data,
                                    .n_grammar = (uint32_t)p->grammar.len,
                                    .detached = true,
                                    .user = (uint64_t)r->who.user_id};
    if (r->model)
        return submit_relay(r, p, key, e);
    settings_begin(&s, r);
    if (!settings_read(&s, p->settings, r->worker->text, r->arena, e))
        return NULL;
    settings_apply(&s, &job);
    tell_answer(p, &job);
    cache_scope_name(job.scope, sizeof job.scope, r, "");
    stored_prompt_owner(job.cache_owner, p->conversation_id);
    snprintf(job.key, sizeof job.key, "%s", key);
    snprintf(job.request_id, sizeof job.request_id, "%s", r->id);
    return model_gate_submit(r, &job, e);
}

/* The user's message is stored at once; the answer is added later. */
static int64_t new_bytes(const struct posting *p)
{
    int64_t n = p->content ? (int64_t)strlen(p->content) : 0;
    for (int i = 0; i < p->results.n; i++)
        n += (int64_t)strlen(p->results.at[i].content);
    return n;
}

static void fail_at_once(struct request *r, int64_t message_id, const struct err *why)
{
    struct buf detail = {0};
    reply_error_detail(&detail, why);
    const struct store_failure failure = {.text = why->text, .detail = detail.data};
    store_message_fail(r->store, r->who.user_id, message_id, &failure, NULL);
    buf_fini(&detail);
}

/* Unguessable, and so unique; with whose job it is. */
static void make_key(const struct request *r, char key[ENGINE_KEY_SIZE])
{
    char token[SECRET_TOKEN_SIZE], at[24] = ""; /* with a row's number of 20 digits */
    secret_token(token);
    if (r->model)
        snprintf(at, sizeof at, WORKER_RELAYED_KEY);
    else if (r->worker->local_id)
        snprintf(at, sizeof at, "%c%lld:", LOCAL_MODEL_KEY, (long long)r->worker->local_id);
    snprintf(key, ENGINE_KEY_SIZE, "%s%.24s", at, token); /* 144 bits */
}

static bool post(struct request *r, struct posting *p, struct err *e)
{
    char key[ENGINE_KEY_SIZE];
    struct store_posted posted;
    struct err failed = {0};
    if (!path_id_param(r, "id", &p->conversation_id, e) || !read_body(r, p, e) ||
        !make_prompt(r, p, e))
        return false;
    make_key(r, key);
    const int64_t tokens = prompt_tokens(r, p);
    if (!limits_storage(r, new_bytes(p), e) || !limits_enter(r, tokens, 1, e))
        return false;
    if (!local_gate_wait(r, true, e)) { /* before the rows, which would soon count as given up */
        limits_spend(r, -tokens);
        limits_leave(r);
        return false;
    }
    bool committed = keep_settings(r, p, e) && commit(r, p, key, &posted, e);
    limits_leave(r); /* from now on the row counts as the user's job */
    struct engine_job *job = committed ? submit(r, p, key, &failed) : NULL;
    if (!job)
        limits_spend(r, -tokens); /* nothing of it is read */
    if (!committed)
        return limits_storage_refused(r, e);
    if (job)
        recorder_notify(r->worker->run_dir, posted.message_id);
    else
        fail_at_once(r, posted.message_id, &failed);
    return conversation_follow(r,
                               &(struct conversation_begun){
                                   .user_message_id = posted.user_message_id,
                                   .message_id = posted.message_id,
                                   .parser = p->parser.data, /* the row's loses a part at its end */
                                   .failed = &failed},
                               &job);
}

bool conversation_post(struct request *r, struct err *e)
{
    struct posting p = {0};
    bool ok = post(r, &p, e);
    cJSON_Delete(p.settings);
    cJSON_Delete(p.kwargs);
    cJSON_Delete(p.offered);
    buf_fini(&p.grammar);
    buf_fini(&p.sources);
    buf_fini(&p.relay);
    buf_fini(&p.parser);
    conversation_resume_fini(&p.earlier);
    prompt_fini(&p.prompt);
    return ok;
}
