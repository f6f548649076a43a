/* conversation.h: the settings of a conversation, checked; what they mean for the template and the
 * answer's form. */
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/conversations/conversation.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/model_name.h"
#include "fcgi/inference/settings.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/process/worker.h"
#include "fcgi/tools/tool_offer.h"
#include "sql/models/store_models.h"

#define MAX_SYSTEM_BYTES 32768
#define MAX_COMPARED 3 /* models beside the chat's own: a page shows four columns at most */

static const char *const setting_names[] = {
    "system",           "temperature",       "top_p",      "top_k",  "min_p",  "repetition_penalty",
    "presence_penalty", "frequency_penalty", "max_tokens", "seed",   "stop",   "thinking",
    "reasoning_effort", "json_schema",       "tools",      "preset", "titles", "model",
    "compare",          "tool_servers",      NULL};

static bool known(const char *name)
{
    for (int i = 0; setting_names[i]; i++)
        if (!strcmp(setting_names[i], name))
            return true;
    return false;
}

bool conversation_grammar(struct request *r, const cJSON *settings, const struct prompt *prompt,
                          struct buf *out, struct err *e)
{
    const cJSON *schema = NULL;
    if (!json_get_object(settings, "json_schema", &schema, e))
        return false;
    struct constraint c = {.schema = schema, .field = "json_schema"};
    const struct constraint_place place = {
        .model = r->worker->text, .prompt = prompt, .tools = json_member(settings, "tools")};
    return !schema || r->model || constraint_compile(&c, &place, out, e);
}

static bool check_schema(struct request *r, const cJSON *o, struct err *e)
{
    struct buf program = {0};
    bool ok = conversation_grammar(r, o, NULL, &program, e);
    buf_fini(&program);
    return ok;
}

/* Whom the page asks too: each of them by a request of its own, so that here they are only names.
 */
static bool check_compared(const cJSON *names, struct err *e)
{
    const cJSON *x, *y;
    if (!names || cJSON_IsNull(names))
        return true;
    if (!cJSON_IsArray(names) || cJSON_GetArraySize(names) > MAX_COMPARED)
        return err_field(e, ERR_INPUT, "compare", "must be at most %d names of models",
                         MAX_COMPARED);
    cJSON_ArrayForEach (x, names) {
        if (!cJSON_IsString(x) || !*x->valuestring ||
            strlen(x->valuestring) > STORE_MODEL_NAME_BYTES)
            return err_field(e, ERR_INPUT, "compare", "must be names of models");
        for (y = x->next; y; y = y->next)
            if (cJSON_IsString(y) && !strcmp(x->valuestring, y->valuestring))
                return err_field(e, ERR_INPUT, "compare", "names '%.100s' twice", x->valuestring);
    }
    return true;
}

/* The preset that these settings came from is a name for the page; it changes no answer. */
static bool check_names(const cJSON *o, struct err *e)
{
    const char *preset = NULL, *model = NULL;
    bool titles;
    const cJSON *tools = json_member(o, "tools");
    if (!json_get_string(o, "preset", &preset, e) || !json_get_bool(o, "titles", &titles, e) ||
        !json_get_string(o, "model", &model, e) || !check_compared(json_member(o, "compare"), e) ||
        !tool_offer_check_form(json_member(o, "tool_servers"), e) ||
        (tools && !chat_check_tools(tools, e)))
        return false;
    if (model && strlen(model) > STORE_MODEL_NAME_BYTES)
        return err_field(e, ERR_INPUT, "model", "is longer than %d bytes", STORE_MODEL_NAME_BYTES);
    return !preset || strlen(preset) <= 256 ||
           err_field(e, ERR_INPUT, "preset", "is longer than 256 bytes");
}

bool conversation_model(struct request *r, const cJSON *settings, struct err *e)
{
    const char *name = NULL;
    model_name_leave(r);
    if (!json_get_string(settings, "model", &name, e))
        return false;
    if (!name || model_name_take(r, name, e))
        return true;
    return e->code == ERR_NOTFOUND && err_reason(e, "model_gone");
}

static bool check_settings(struct request *r, const cJSON *o, struct err *e)
{
    struct settings s;
    const char *system = NULL;
    if (!conversation_model(r, o, e))
        return false;
    settings_begin(&s, r);
    if (!json_get_string(o, "system", &system, e) ||
        !settings_read(&s, o, r->model ? NULL : r->worker->text, r->arena, e) ||
        !check_names(o, e) || !check_schema(r, o, e))
        return false;
    if (system && strlen(system) > MAX_SYSTEM_BYTES)
        return err_field(e, ERR_INPUT, "system", "is longer than %d bytes", MAX_SYSTEM_BYTES);
    cJSON *kwargs = conversation_kwargs(r, o, e);
    cJSON_Delete(kwargs);
    return kwargs != NULL;
}

bool conversation_settings_check(struct request *r, const cJSON *o, struct arena *a, struct err *e)
{
    struct settings s = {.max_tokens = -1, .least_tokens = 1};
    const cJSON *item, *schema = NULL;
    const char *system = NULL, *effort = NULL;
    bool thinking;
    cJSON_ArrayForEach (item, o)
        if (!known(item->string))
            return err_field(e, ERR_INPUT, item->string, "is not a setting");
    if (!json_get_string(o, "system", &system, e) || !settings_read(&s, o, r->worker->text, a, e) ||
        !check_names(o, e) || !json_get_object(o, "json_schema", &schema, e) ||
        !json_get_bool(o, "thinking", &thinking, e) ||
        !json_get_string(o, "reasoning_effort", &effort, e))
        return false;
    return !system || strlen(system) <= MAX_SYSTEM_BYTES ||
           err_field(e, ERR_INPUT, "system", "is longer than %d bytes", MAX_SYSTEM_BYTES);
}

cJSON *conversation_settings(struct request *r, const char *stored, const cJSON *change,
                             struct err *e)
{
    const cJSON *item;
    /* A server that was removed since stays named in older settings, and offers nothing. */
    if (!tool_offer_check(r, json_member(change, "tool_servers"), e))
        return NULL;
    cJSON *o = json_parse(stored, strlen(stored), NULL, e);
    if (!o)
        return NULL;
    cJSON_ArrayForEach (item, change) {
        if (!known(item->string)) {
            err_field(e, ERR_INPUT, "settings", "'%.40s' is not a setting", item->string);
            goto fail;
        }
        cJSON_DeleteItemFromObjectCaseSensitive(o, item->string);
        if (!cJSON_IsNull(item) &&
            !cJSON_AddItemToObject(o, item->string, cJSON_Duplicate(item, true))) {
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

/* A chat's own model may be gone; that is no reason not to ask another. */
static const char *own_model(struct request *r, const cJSON *settings)
{
    struct err gone = {0};
    if (conversation_model(r, settings, &gone))
        return model_name_of(r);
    r->error_override.code = NULL;
    r->error_override.retry_after_s = 0;
    return "";
}

cJSON *conversation_for_model(struct request *r, const char *stored, const char *name,
                              struct err *e)
{
    cJSON *own = json_parse(stored, strlen(stored), NULL, e), *change = cJSON_CreateObject();
    const char *before = own ? own_model(r, own) : NULL;
    bool ok = before && ((change && cJSON_AddStringToObject(change, "model", name)) ||
                         err_set(e, ERR_NOMEM, "no memory for the settings"));
    ok = ok && conversation_model(r, change, e);
    if (ok && strcmp(before, model_name_of(r)))
        ok = (cJSON_AddNullToObject(change, "thinking") &&
              cJSON_AddNullToObject(change, "reasoning_effort")) ||
             err_set(e, ERR_NOMEM, "no memory for the settings");
    cJSON_Delete(own);
    if (ok)
        return change;
    cJSON_Delete(change);
    return NULL;
}

cJSON *conversation_kwargs(struct request *r, const cJSON *settings, struct err *e)
{
    bool thinking = true;
    const char *effort = NULL;
    struct chat_request c = {.kwargs = cJSON_CreateObject()};
    bool ok = c.kwargs && json_get_bool(settings, "thinking", &thinking, e) &&
              json_get_string(settings, "reasoning_effort", &effort, e) &&
              (!effort || chat_set_effort(&c, r, effort, "reasoning_effort", e));
    if (ok && json_member(settings, "thinking"))
        cJSON_DeleteItemFromObjectCaseSensitive(
            c.kwargs, "enable_thinking"); /* a level of effort may have set it */
    if (ok && json_member(settings, "thinking"))
        ok = cJSON_AddBoolToObject(c.kwargs, "enable_thinking", thinking) ||
             err_set(e, ERR_NOMEM, "no memory for the settings");
    if (ok)
        return c.kwargs;
    if (!c.kwargs)
        err_set(e, ERR_NOMEM, "no memory for the settings");
    cJSON_Delete(c.kwargs);
    return NULL;
}
