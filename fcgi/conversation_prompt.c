/* conversation.h: settings, and the messages of a branch as a prompt. */
#include <string.h>

#include "engine/base/json.h"
#include "fcgi/conversation.h"
#include "fcgi/facts.h"
#include "fcgi/request.h"
#include "fcgi/settings.h"
#include "fcgi/worker.h"
#include "sql/store_conversations.h"

#define MAX_SYSTEM_BYTES 32768

static const char *const setting_names[] = {"system", "temperature", "top_p", "top_k", "min_p",
                                            "max_tokens", "seed", "stop", "thinking", NULL};

static bool known(const char *name)
{
    for (int i = 0; setting_names[i]; i++)
        if (!strcmp(setting_names[i], name))
            return true;
    return false;
}

static bool check_settings(struct request *r, const cJSON *o, struct err *e)
{
    struct settings s;
    const char *system = NULL;
    bool thinking;
    settings_begin(&s, r);
    if (!json_get_string(o, "system", &system, e) || !json_get_bool(o, "thinking", &thinking, e) ||
        !settings_read(&s, o, r->worker->text, r->arena, e))
        return false;
    if (system && strlen(system) > MAX_SYSTEM_BYTES)
        return err_field(e, ERR_INPUT, "system", "is longer than %d bytes", MAX_SYSTEM_BYTES);
    return true;
}

cJSON *conversation_settings(struct request *r, const char *stored, const cJSON *change, struct err *e)
{
    const cJSON *item;
    cJSON *o = json_parse(stored, strlen(stored), NULL, e);
    if (!o)
        return NULL;
    cJSON_ArrayForEach(item, change)
    {
        if (!known(item->string)) {
            err_field(e, ERR_INPUT, "settings", "'%.40s' is not a setting", item->string);
            goto fail;
        }
        cJSON_DeleteItemFromObjectCaseSensitive(o, item->string);
        if (!cJSON_IsNull(item) && !cJSON_AddItemToObject(o, item->string, cJSON_Duplicate(item, true))) {
            err_set(e, ERR_NOMEM, "no memory for the settings");
            goto fail;
        }
    }
    if (check_settings(r, o, e))
        return o;
fail:
    cJSON_Delete(o);
    return NULL;
}

struct branch {
    cJSON *messages;
    bool running, failed;
    int64_t last_id;
};

static cJSON *add_message(cJSON *messages, const char *role, const char *content)
{
    cJSON *m = cJSON_CreateObject();
    if (!m || !cJSON_AddItemToArray(messages, m) || !cJSON_AddStringToObject(m, "role", role) ||
        !cJSON_AddStringToObject(m, "content", content))
        return NULL;
    return m;
}

/* Failed answers stay in, with what they have: roles must go on alternating. */
static bool add_row(void *context, const struct store_message *row)
{
    struct branch *b = context;
    cJSON *m = add_message(b->messages, store_role_name(row->role), row->content);
    b->last_id = row->id;
    b->running |= row->status == MESSAGE_RUNNING;
    b->failed |= !m || (*row->reasoning && !cJSON_AddStringToObject(m, "reasoning_content", row->reasoning));
    if (m && row->tool_calls) {
        cJSON *calls = json_parse(row->tool_calls, strlen(row->tool_calls), NULL, NULL);
        b->failed |= !calls || !cJSON_AddItemToObject(m, "tool_calls", calls);
    }
    return !b->failed;
}

static bool read_branch(struct request *r, int64_t conversation_id, int64_t leaf, const char *content,
                        struct branch *b, struct err *e)
{
    if (leaf && !store_message_branch(r->store, r->who.user_id, conversation_id, leaf, add_row, b, e))
        return false;
    if (leaf && b->last_id != leaf && !b->failed)
        return err_field(e, ERR_INPUT, "parent_id", "is not a message of this conversation");
    if (b->running)
        return err_set(e, ERR_CONFLICT, "the answer before is still being written");
    if (content)
        b->failed |= !add_message(b->messages, "user", content);
    return !b->failed || err_set(e, ERR_NOMEM, "no memory for the prompt's messages");
}

/* Before anything is committed: a prompt that can't be answered is the request's error, not an answer. */
static bool fits_context(struct request *r, const struct prompt *p, struct err *e)
{
    struct status_page page;
    if (!facts_read(r, &page) || page.n_ctx <= 0 || p->ids.n < (size_t)page.n_ctx)
        return true;
    r->hint.code = "context_length_exceeded";
    return err_set(e, ERR_LIMIT, "the conversation has %zu tokens, the model's context %d", p->ids.n,
                   (int)page.n_ctx);
}

bool conversation_prompt(struct request *r, int64_t conversation_id, int64_t leaf, const char *content,
                         const cJSON *settings, struct prompt *out, struct err *e)
{
    const char *system = NULL;
    bool thinking = true, ok = false;
    struct branch b = {.messages = cJSON_CreateArray()};
    cJSON *kwargs = cJSON_CreateObject();
    if (!b.messages || !kwargs) {
        err_set(e, ERR_NOMEM, "no memory for the prompt");
    } else if (json_get_string(settings, "system", &system, e) && json_get_bool(settings, "thinking", &thinking, e)) {
        if (json_member(settings, "thinking"))
            cJSON_AddBoolToObject(kwargs, "enable_thinking", thinking);
        b.failed = system && *system && !add_message(b.messages, "system", system);
        struct prompt_input in = {.messages = b.messages, .kwargs = kwargs};
        ok = read_branch(r, conversation_id, leaf, content, &b, e) &&
             prompt_make(r->worker->text, &in, out, e) && fits_context(r, out, e);
    }
    cJSON_Delete(b.messages);
    cJSON_Delete(kwargs);
    return ok;
}
