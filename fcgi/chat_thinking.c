/* chat_request.h: what the request says about thinking, as the model's template knows it. */
#include <string.h>

#include "engine/base/json.h"
#include "fcgi/chat_request.h"
#include "fcgi/request.h"
#include "fcgi/worker.h"

static const struct chat_traits *traits_of(const struct request *r)
{
    static const struct chat_traits none;
    const struct chat_template *t = r->worker->text->chat_template;
    return t ? chat_template_traits(t) : &none;
}

static bool set_variable(struct chat_request *c, const char *name, cJSON *v, struct err *e)
{
    if (!c->kwargs)
        c->kwargs = cJSON_CreateObject();
    cJSON_DeleteItemFromObjectCaseSensitive(c->kwargs, name);
    if (v && cJSON_AddItemToObject(c->kwargs, name, v))
        return true;
    cJSON_Delete(v);
    return err_set(e, ERR_NOMEM, "no memory for the template's variables");
}

bool chat_set_effort(struct chat_request *c, const struct request *r, const char *effort, const char *field,
                     struct err *e)
{
    static const char *const levels[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max", NULL};
    const struct chat_traits *t = traits_of(r);
    int i = 0;
    while (levels[i] && strcmp(levels[i], effort))
        i++;
    if (!levels[i])
        return err_field(e, ERR_INPUT, field, "must be none, minimal, low, medium, high, xhigh or max");
    if (t->effort)
        return set_variable(c, "reasoning_effort", cJSON_CreateString(effort), e);
    if (i == 0 && t->thinking_switch)
        return set_variable(c, "enable_thinking", cJSON_CreateFalse(), e);
    if (i == 0 && !t->thinking)
        return true;
    return err_field(e, ERR_UNSUPPORTED, field, "the model's chat template does not obey '%s'", effort);
}

bool chat_set_thinking(struct chat_request *c, const struct request *r, bool on, const char *field, struct err *e)
{
    const struct chat_traits *t = traits_of(r);
    if (!t->thinking_switch && on == t->thinking)
        return true;
    if (!t->thinking_switch)
        return err_field(e, ERR_UNSUPPORTED, field, "the model's chat template has no such switch");
    return set_variable(c, "enable_thinking", cJSON_CreateBool(on), e);
}

static bool read_template_kwargs(struct chat_request *c, const cJSON *body, struct err *e)
{
    static const char *const own[] = {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token", NULL};
    const cJSON *o = NULL;
    if (!json_get_object(body, "chat_template_kwargs", &o, e))
        return false;
    for (int i = 0; own[i]; i++)
        if (json_member(o, own[i]))
            return err_field(e, ERR_INPUT, "chat_template_kwargs", "'%s' is the server's own", own[i]);
    if (o && !(c->kwargs = cJSON_Duplicate(o, true)))
        return err_set(e, ERR_NOMEM, "no memory for the template's variables");
    return true;
}

bool chat_read_thinking(struct chat_request *c, const struct request *r, const cJSON *body, struct err *e)
{
    const char *effort = NULL;
    bool on = false;
    return read_template_kwargs(c, body, e) && json_get_string(body, "reasoning_effort", &effort, e) &&
           (!effort || chat_set_effort(c, r, effort, "reasoning_effort", e)) &&
           json_get_bool(body, "enable_thinking", &on, e) &&
           (!json_member(body, "enable_thinking") || chat_set_thinking(c, r, on, "enable_thinking", e));
}
