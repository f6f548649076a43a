/* POST /api/conversations/{id}/messages: a message and its answer, or another answer to a message. Everything that
 * can be refused is refused before the commit; after it the row tells what became of the answer. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "fcgi/answer.h"
#include "fcgi/chat_request.h"
#include "fcgi/conversation.h"
#include "fcgi/recorder.h"
#include "fcgi/request.h"
#include "fcgi/settings.h"
#include "fcgi/title.h"
#include "fcgi/worker.h"
#include "sql/secret.h"
#include "sql/store_conversations.h"

struct posting {
    int64_t conversation_id;
    struct store_conversation conversation;
    const char *content; /* NULL: another answer */
    int64_t parent_id;
    bool new_settings;
    cJSON *settings;
    struct prompt prompt;
};

static const struct field_row fields[] = {
    {"content", FIELD_READ}, {"parent_id", FIELD_READ}, {"regenerate", FIELD_READ}, {"settings", FIELD_READ}, {0}};

/* Another answer to the same question; to a user's message itself when it has none yet. */
static bool read_regenerate(struct request *r, struct posting *p, const char *text, struct err *e)
{
    int64_t id;
    struct store_message m;
    struct err why = {0};
    if (!conversation_read_id(text, &id) ||
        !store_message_get(r->store, r->arena, r->who.user_id, id, &m, &why) ||
        m.conversation_id != p->conversation_id)
        return err_field(e, ERR_INPUT, "regenerate", "is not a message of this conversation");
    p->parent_id = m.role == ROLE_USER ? m.id : m.parent_id;
    return true;
}

static bool read_parent(const cJSON *body, struct posting *p, struct err *e)
{
    const char *text = NULL;
    const cJSON *sent = cJSON_GetObjectItemCaseSensitive(body, "parent_id");
    p->parent_id = sent ? 0 : p->conversation.leaf_id; /* null: a new root */
    if (!json_get_string(body, "parent_id", &text, e))
        return false;
    return !text || conversation_read_id(text, &p->parent_id) ||
           err_field(e, ERR_INPUT, "parent_id", "is not a message of this conversation");
}

static bool read_body(struct request *r, struct posting *p, struct err *e)
{
    const cJSON *body = request_json(r, e), *settings = NULL;
    const char *regenerate = NULL;
    if (!body || !fields_check(r, body, fields, e) ||
        !store_conversation_get(r->store, r->arena, r->who.user_id, p->conversation_id, &p->conversation, e) ||
        !json_get_string(body, "content", &p->content, e) || !json_get_string(body, "regenerate", &regenerate, e) ||
        !json_get_object(body, "settings", &settings, e))
        return false;
    if (!p->content == !regenerate)
        return err_field(e, ERR_INPUT, "content", "send either content or regenerate");
    if (p->content && strspn(p->content, " \t\r\n") == strlen(p->content))
        return err_field(e, ERR_INPUT, "content", "is empty");
    if (p->content && strlen(p->content) > STORE_CONTENT_BYTES)
        return err_field(e, ERR_LIMIT, "content", "is longer than %d bytes", STORE_CONTENT_BYTES);
    if (regenerate ? !read_regenerate(r, p, regenerate, e) : !read_parent(body, p, e))
        return false;
    p->new_settings = settings != NULL;
    p->settings = conversation_settings(r, p->conversation.settings, settings, e);
    return p->settings != NULL;
}

static bool keep_settings(struct request *r, const struct posting *p, struct err *e)
{
    struct buf text = {0};
    bool ok = true;
    if (p->new_settings) {
        ok = json_write(&text, p->settings) || err_set(e, ERR_NOMEM, "no memory for the settings");
        ok = ok && store_conversation_change(r->store, r->who.user_id, p->conversation_id,
                                             &(struct store_conversation_change){.settings = text.data}, e);
    }
    buf_fini(&text);
    return ok;
}

static bool commit(struct request *r, const struct posting *p, const char *key, struct store_posted *out,
                   struct err *e)
{
    char title[TITLE_SIZE] = "";
    struct buf parser = {0};
    if (p->content)
        title_make(p->content, title);
    bool ok = answer_parser_json(&parser, p->prompt.format, p->prompt.opens_reasoning, NULL) ||
              err_set(e, ERR_NOMEM, "no memory for the answer");
    ok = ok && store_message_post(r->store,
                                  &(struct store_post){.user_id = r->who.user_id,
                                                       .conversation_id = p->conversation_id,
                                                       .parent_id = p->parent_id,
                                                       .content = p->content,
                                                       .title = title[0] ? title : NULL,
                                                       .model = r->worker->model_id,
                                                       .job_key = key,
                                                       .parser = parser.data},
                                  out, e);
    buf_fini(&parser);
    return ok;
}

static struct engine_job *submit(struct request *r, const struct posting *p, const char *key, struct err *e)
{
    struct settings s;
    struct engine_job_params job = {.prompt = p->prompt.ids.at,
                                    .n_prompt = (int32_t)p->prompt.ids.n,
                                    .top_logprobs = -1,
                                    .special_text = prompt_wants_special_text(&p->prompt),
                                    .detached = true,
                                    .user = (uint64_t)r->who.user_id};
    settings_begin(&s, r);
    if (!settings_read(&s, p->settings, r->worker->text, r->arena, e))
        return NULL;
    settings_apply(&s, &job);
    scope_name(job.scope, sizeof job.scope, r, "");
    snprintf(job.key, sizeof job.key, "%s", key);
    snprintf(job.request_id, sizeof job.request_id, "%s", r->id);
    return engine_submit(r->worker->engine_socket, &job, e);
}

static bool post(struct request *r, struct posting *p, struct err *e)
{
    char key[SECRET_TOKEN_SIZE]; /* unguessable, and so unique */
    struct store_posted posted;
    struct err failed = {0};
    if (!conversation_path_id(r, &p->conversation_id, e) || !read_body(r, p, e) ||
        !conversation_prompt(r, p->conversation_id, p->parent_id, p->content, p->settings, &p->prompt, e))
        return false;
    secret_token(key);
    if (!keep_settings(r, p, e) || !commit(r, p, key, &posted, e))
        return false;
    struct engine_job *job = submit(r, p, key, &failed);
    if (job)
        recorder_notify(r->worker->run_dir, posted.message_id);
    else
        store_message_fail(r->store, r->who.user_id, posted.message_id, failed.text, NULL);
    return conversation_follow(r, posted.user_message_id, posted.message_id, &job, &failed);
}

bool conversation_post(struct request *r, struct err *e)
{
    struct posting p = {0};
    bool ok = post(r, &p, e);
    cJSON_Delete(p.settings);
    prompt_fini(&p.prompt);
    return ok;
}
