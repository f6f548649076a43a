/* chat_request.h: what the request says about thinking and length, as the model's template knows
 * it. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/process/worker.h"

#define THINKING_TOKENS 512 /* more where thinking can't be turned off */

static const struct chat_traits *traits_of(const struct request *r)
{
    static const struct chat_traits none,
        any = {.thinking = true, .thinking_switch = true, .effort = true, .verbosity = true};
    if (r->model) /* another server's: it says itself what it can't do */
        return &any;
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

enum {
    EFFORT_NONE,
    EFFORT_MINIMAL,
    EFFORT_LOW,
    EFFORT_MEDIUM,
    EFFORT_HIGH,
    EFFORT_XHIGH,
    EFFORT_MAX,
    EFFORT__N
};
static const char *const levels[EFFORT__N] = {"none", "minimal", "low", "medium",
                                              "high", "xhigh",   "max"};

/* Templates with levels know low, medium and high, so another level becomes the nearest of them. */
static bool set_level(struct chat_request *c, struct request *r, int level, const char *field,
                      struct err *e)
{
    int nearest = r->model              ? level
                  : level < EFFORT_LOW  ? EFFORT_LOW
                  : level > EFFORT_HIGH ? EFFORT_HIGH
                                        : level;
    if (nearest != level) {
        char message[IGNORED_MESSAGE_BYTES];
        snprintf(message, sizeof message,
                 "'%s' was taken as '%s', the nearest level that the model knows", levels[level],
                 levels[nearest]);
        ignored_warn(r, field, message, false);
    }
    return set_variable(c, "reasoning_effort", cJSON_CreateString(levels[nearest]), e);
}

bool chat_set_effort(struct chat_request *c, struct request *r, const char *effort,
                     const char *field, struct err *e)
{
    const struct chat_traits *t = traits_of(r);
    int level = 0;
    while (level < EFFORT__N && strcmp(levels[level], effort))
        level++;
    if (level == EFFORT__N)
        return err_field(e, ERR_INPUT, field,
                         "must be none, minimal, low, medium, high, xhigh or max");
    if (level == EFFORT_NONE && (t->thinking_switch || !t->thinking))
        return !t->thinking_switch || set_variable(c, "enable_thinking", cJSON_CreateFalse(), e);
    if (t->effort)
        return set_level(c, r, level, field, e);
    if (!t->thinking_switch)
        return ignored_add(r, field, "the model's chat template knows no levels of effort", e);
    ignored_warn(r, field, "thinking is on; the model's chat template knows no levels of effort",
                 false);
    return set_variable(c, "enable_thinking", cJSON_CreateTrue(), e);
}

bool chat_set_thinking(struct chat_request *c, struct request *r, bool on, const char *field,
                       struct err *e)
{
    const struct chat_traits *t = traits_of(r);
    if (!t->thinking_switch && on == t->thinking)
        return true;
    if (!t->thinking_switch)
        return ignored_add(r, field, "the model's chat template cannot switch thinking on or off",
                           e);
    return set_variable(c, "enable_thinking", cJSON_CreateBool(on), e);
}

bool chat_set_verbosity(struct chat_request *c, struct request *r, const char *verbosity,
                        const char *field, struct err *e)
{
    static const char *const known[] = {"low", "medium", "high"};
    int i = 0;
    while (i < 3 && strcmp(known[i], verbosity))
        i++;
    if (i == 3)
        return err_field(e, ERR_INPUT, field, "must be low, medium or high");
    if (traits_of(r)->verbosity)
        return set_variable(c, "verbosity", cJSON_CreateString(verbosity), e);
    return i == 1 || ignored_add(r, field, fields_foreign_reason("verbosity"), e);
}

static bool read_template_kwargs(struct chat_request *c, const cJSON *body, struct err *e)
{
    static const char *const own[] = {"messages",  "tools",     "add_generation_prompt",
                                      "bos_token", "eos_token", NULL};
    const cJSON *o = NULL;
    if (!json_get_object(body, "chat_template_kwargs", &o, e))
        return false;
    for (int i = 0; own[i]; i++)
        if (json_member(o, own[i]))
            return err_field(e, ERR_INPUT, "chat_template_kwargs", "'%s' is the server's own",
                             own[i]);
    if (o && !(c->kwargs = cJSON_Duplicate(o, true)))
        return err_set(e, ERR_NOMEM, "no memory for the template's variables");
    return true;
}

/* Anthropic's object in a chat's body, as gateways pass it on: {type: enabled, disabled or
 * adaptive}; or true and false. */
static bool read_thinking_object(struct chat_request *c, struct request *r, const cJSON *body,
                                 struct err *e)
{
    const cJSON *thinking = json_member(body, "thinking");
    const char *type = json_text(thinking, "type");
    if (!thinking)
        return true;
    if (cJSON_IsBool(thinking))
        return chat_set_thinking(c, r, cJSON_IsTrue(thinking), "thinking", e);
    if (!cJSON_IsObject(thinking) || !type)
        return err_field(e, ERR_INPUT, "thinking", "must be true, false or an object with a type");
    if (json_member(thinking, "budget_tokens"))
        ignored_warn(r, "thinking.budget_tokens", "ignored: the model decides how long it thinks",
                     true);
    if (!strcmp(type, "enabled") || !strcmp(type, "adaptive") || !strcmp(type, "auto") ||
        !strcmp(type, "disabled"))
        return chat_set_thinking(c, r, strcmp(type, "disabled") != 0, "thinking", e);
    return err_field(e, ERR_INPUT, "thinking.type", "must be enabled, adaptive or disabled");
}

/* Ollama's: true, false or a level. */
static bool read_think(struct chat_request *c, struct request *r, const cJSON *body, struct err *e)
{
    const cJSON *think = json_member(body, "think");
    if (!think)
        return true;
    if (cJSON_IsString(think))
        return chat_set_effort(c, r, think->valuestring, "think", e);
    if (!cJSON_IsBool(think))
        return err_field(e, ERR_INPUT, "think", "must be true, false or a level of effort");
    return chat_set_thinking(c, r, cJSON_IsTrue(think), "think", e);
}

bool chat_read_reasoning(struct chat_request *c, struct request *r, const cJSON *reasoning,
                         struct err *e)
{
    const cJSON *member;
    cJSON_ArrayForEach (member, reasoning) {
        char field[IGNORED_FIELD_BYTES];
        snprintf(field, sizeof field, "reasoning.%.50s", member->string);
        bool effort = !strcmp(member->string, "effort"),
             enabled = !strcmp(member->string, "enabled");
        if (cJSON_IsNull(member) || !strcmp(member->string, "summary"))
            continue; /* the endpoint's own */
        if (effort && !cJSON_IsString(member))
            return err_field(e, ERR_INPUT, field, "must be a string");
        if (enabled && !cJSON_IsBool(member))
            return err_field(e, ERR_INPUT, field, "must be true or false");
        bool ok = effort ? chat_set_effort(c, r, member->valuestring, field, e)
                  : enabled
                      ? chat_set_thinking(c, r, cJSON_IsTrue(member), field, e)
                      : ignored_add(
                            r, field,
                            "the model decides how long it thinks, and its reasoning is given", e);
        if (!ok)
            return false;
    }
    return true;
}

bool chat_read_thinking(struct chat_request *c, struct request *r, const cJSON *body, struct err *e)
{
    const char *effort = NULL;
    bool on = false;
    return read_template_kwargs(c, body, e) &&
           json_get_string(body, "reasoning_effort", &effort, e) &&
           (!effort || chat_set_effort(c, r, effort, "reasoning_effort", e)) &&
           read_thinking_object(c, r, body, e) && read_think(c, r, body, e) &&
           json_get_bool(body, "enable_thinking", &on, e) &&
           (!json_member(body, "enable_thinking") ||
            chat_set_thinking(c, r, on, "enable_thinking", e));
}

bool chat_think_least(struct chat_request *c, struct request *r, struct err *e)
{
    const struct chat_traits *t = traits_of(r);
    if (!t->effort && t->thinking_switch)
        return chat_set_thinking(c, r, false, "thinking", e);
    if (t->effort || t->thinking)
        c->settings.max_tokens += THINKING_TOKENS;
    return !t->effort || chat_set_effort(c, r, "low", "reasoning_effort", e);
}
