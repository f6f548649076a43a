/* POST /api/conversations/{id}/title: the model finds a title for a chat that has only its first
 * line, when nothing else wants the device. The user's own title stays, also one that is given
 * while the model is at it. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/conversations/conversation.h"
#include "fcgi/conversations/title.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/cache_scope.h"
#include "fcgi/inference/inference.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/process/worker.h"
#include "fcgi/status/engine_status.h"
#include "sql/chats/store_conversations.h"

#define EXCERPT_BYTES 1500 /* of each message: what a talk is about stands at its beginning */
#define TITLE_TOKENS 32
#define SMALL_MODEL                                                                                \
    300000000u /* parameters: such a model writes worse titles than the first line is */

static const char instruction[] = "Give this conversation a short title of at most six words, in "
                                  "its own language. Reply with the title alone.";

struct beginning {          /* of the branch that is shown */
    struct buf text;        /* both messages, cut */
    char title[TITLE_SIZE]; /* what was made of the first line */
    int n;
};

static bool take_message(void *context, const struct store_message *m)
{
    struct beginning *b = context;
    size_t len = strlen(m->content);
    if (b->n == 0 && m->role == ROLE_USER)
        title_make(m->content, b->title);
    if (len > EXCERPT_BYTES)
        for (len = EXCERPT_BYTES; len && ((unsigned char)m->content[len] & 0xc0) == 0x80;)
            len--;
    buf_puts(&b->text, b->n ? "\n\nAnswer: " : "Question: ");
    buf_append(&b->text, m->content, len);
    b->n += m->status != MESSAGE_RUNNING;
    return b->n < 2;
}

static bool wanted(const struct request *r, const char *settings)
{
    bool titles = true;
    cJSON *o = json_parse(settings, strlen(settings), NULL, NULL);
    json_get_bool(o, "titles", &titles, NULL);
    cJSON_Delete(o);
    struct status_page page;
    /* Where others wait, the first line becomes the title: a queued title job would hold a process
     * of the pool that answers need. */
    bool able = engine_status_read(r, &page) &&
                (!page.parameters || page.parameters >= SMALL_MODEL) && !page.jobs_waiting;
    return titles && able && server_setting_bool(r, SETTING_MODEL_TITLES);
}

static bool make_prompt(struct request *r, struct chat_request *c, const struct beginning *b,
                        struct prompt *out, struct err *e)
{
    struct buf ask = {0};
    cJSON *messages = cJSON_CreateArray(), *m = cJSON_CreateObject();
    buf_puts(&ask, b->text.data);
    buf_printf(&ask, "\n\n%s", instruction);
    cJSON_AddItemToArray(messages, m);
    cJSON_AddStringToObject(m, "role", "user");
    cJSON_AddStringToObject(m, "content", ask.data ? ask.data : "");
    c->settings.max_tokens = TITLE_TOKENS;
    bool ok = (!ask.failed || err_set(e, ERR_NOMEM, "no memory for the title")) &&
              chat_think_least(c, r, e);
    ok = ok &&
         prompt_make(r->worker->text,
                     &(struct prompt_input){.messages = messages, .kwargs = c->kwargs}, out, e);
    cJSON_Delete(messages);
    buf_fini(&ask);
    return ok;
}

/* Strips quotation marks and a full stop from the title. */
static void clean(const struct buf *answer, char out[TITLE_SIZE])
{
    char line[TITLE_SIZE];
    size_t len;
    title_make(answer->data ? answer->data : "", line);
    char *at = line;
    while (*at == '"' || *at == '\'' || *at == '`')
        at++;
    for (len = strlen(at); len && strchr("\"'`.", at[len - 1]); len--)
        at[len - 1] = '\0';
    snprintf(out, TITLE_SIZE, "%s", at);
}

static bool ask_model(struct request *r, const struct beginning *b, char title[TITLE_SIZE],
                      struct err *e)
{
    struct chat_request c = {0};
    struct prompt prompt = {0};
    struct inference x = {0};
    chat_request_init(&c, r, "title");
    c.settings.sampling.temperature = 0.2f;
    bool ok = make_prompt(r, &c, b, &prompt, e);
    if (ok) {
        struct inference_params p = {
            .n = 1,
            .aside = true,
            .job = {.prompt = prompt.ids.at,
                    .n_prompt = (int32_t)prompt.ids.n,
                    .top_logprobs = -1,
                    .priority = 1,
                    .special_text = prompt_wants_special_text(&prompt),
                    .user = (uint64_t)r->who.user_id},
            .generation = {.format = prompt.format, .opens_reasoning = prompt.opens_reasoning}};
        settings_apply(&c.settings, &p.job);
        cache_scope_name(p.job.scope, sizeof p.job.scope, r, "");
        p.job.cache_keep_seconds = -1; /* nothing goes on from a title */
        snprintf(p.job.request_id, sizeof p.job.request_id, "%s", r->id);
        ok = inference_start(&x, r, &p, e) && inference_run(&x, e);
        if (ok)
            clean(&x.generations[0].content, title);
        inference_end(&x);
    }
    prompt_fini(&prompt);
    chat_request_fini(&c);
    return ok;
}

static bool send_title(struct request *r, int64_t id, bool changed, struct err *e)
{
    struct store_conversation c;
    if (!store_conversation_get(r->store, r->arena,
                                &(struct store_ref){.user_id = r->who.user_id, .id = id}, &c, e))
        return false;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "title", c.title);
    cJSON_AddBoolToObject(o, "changed", changed);
    reply_json(r, 200, o);
    cJSON_Delete(o);
    return true;
}

bool conversation_title(struct request *r, struct err *e)
{
    int64_t id;
    struct store_conversation c;
    struct beginning b = {0};
    char title[TITLE_SIZE] = "";
    bool own = false, changed = false;
    if (!request_json(r, e) || !path_id_param(r, "id", &id, e) ||
        !store_conversation_get(r->store, r->arena,
                                &(struct store_ref){.user_id = r->who.user_id, .id = id}, &c, e) ||
        !store_conversation_own_title(r->store, r->who.user_id, id, &own, e))
        return false;
    bool ok = true;
    if (!own && wanted(r, c.settings) && c.leaf_id)
        ok = store_message_branch(r->store,
                                  &(struct store_branch){.user_id = r->who.user_id,
                                                         .conversation_id = id,
                                                         .leaf_id = c.leaf_id},
                                  take_message, &b, e);
    /* Replaces only the first line: any other title came from the user, or from elsewhere. */
    if (ok && b.n == 2 && !strcmp(c.title, b.title)) {
        ok = ask_model(r, &b, title, e);
        if (ok && *title)
            ok = store_conversation_retitle(
                r->store,
                &(struct store_retitle){
                    .user_id = r->who.user_id, .id = id, .old = c.title, .title = title},
                &changed, e);
    }
    buf_fini(&b.text);
    return ok && send_title(r, id, changed, e);
}
