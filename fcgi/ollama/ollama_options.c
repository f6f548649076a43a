/* ollama.h: options. Each is one of a chat's settings under Ollama's name, or it is named as
 * ignored. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/request.h"
#include "fcgi/ollama/ollama.h"
#include "fcgi/process/worker.h"

static const struct option_row {
    const char *name, *setting; /* Ollama's; settings.h's */
} rows[] = {
    {"temperature", "temperature"},
    {"top_k", "top_k"},
    {"top_p", "top_p"},
    {"min_p", "min_p"},
    {"repeat_penalty", "repetition_penalty"},
    {"presence_penalty", "presence_penalty"},
    {"frequency_penalty", "frequency_penalty"},
    {"seed", "seed"},
    {"stop", "stop"},
    {"num_predict", "max_tokens"},
    {"experts_per_token", "experts_per_token"}, /* ours */
};

static const struct option_row *find(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!strcmp(rows[i].name, name))
            return &rows[i];
    return NULL;
}

/* num_predict: -1 without end, -2 until the context is full, 0 likewise: an answer ends with the
 * context in any case. seed -1: a random one. */
static bool asks_for_nothing(const cJSON *option)
{
    const double v = cJSON_IsNumber(option) ? option->valuedouble : 1;
    return cJSON_IsNull(option) ||
           (!strcmp(option->string, "num_predict") && (v == 0 || v == -1 || v == -2)) ||
           (!strcmp(option->string, "seed") && v == -1);
}

/* The setting that is at fault under the option's name. Always false. */
static bool rename_option(struct err *e)
{
    char field[sizeof e->field];
    const char *name = e->field;
    if (!e->field[0])
        return false;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!strcmp(rows[i].setting, e->field))
            name = rows[i].name;
    snprintf(field, sizeof field, "options.%.50s", name);
    memcpy(e->field, field, sizeof field);
    return false;
}

bool ollama_read_options(struct chat_request *c, struct request *r, const cJSON *body,
                         struct err *e)
{
    struct chat_build b = {0};
    const cJSON *options = NULL, *option;
    cJSON *o = cJSON_AddObjectToObject(c->owned, "settings");
    if (!json_get_object(body, "options", &options, e))
        return false;
    cJSON_ArrayForEach (option, options) {
        char field[IGNORED_FIELD_BYTES];
        const struct option_row *row = find(option->string);
        const char *reason = fields_foreign_reason(option->string);
        snprintf(field, sizeof field, "options.%.50s", option->string);
        if (asks_for_nothing(option))
            continue;
        if (row)
            chat_build_refer(&b, o, row->setting, option);
        else if (!ignored_add(r, field, reason ? reason : "there is no such option here", e))
            return false;
    }
    if (b.failed)
        return err_set(e, ERR_NOMEM, "no memory for the options");
    return chat_request_settings(c, r, o, e) || rename_option(e);
}
