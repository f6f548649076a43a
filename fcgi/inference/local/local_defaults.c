/* local_defaults.h: read by the reader of requests, so that names and limits are the same. */
#include "fcgi/inference/local/local_defaults.h"

#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/settings.h"
#include "fcgi/process/worker.h"
#include "sql/models/store_models.h"

/* Those without texts and tokens, which belong to one request. */
static const char *const names[] = {
    "temperature",       "top_p",      "top_k", "min_p", "repetition_penalty", "presence_penalty",
    "frequency_penalty", "max_tokens", NULL};

static bool known(const char *name)
{
    for (int i = 0; names[i]; i++)
        if (!strcmp(names[i], name))
            return true;
    return false;
}

bool local_defaults_check(const cJSON *o, struct arena *a, struct err *e)
{
    struct settings s = {.max_tokens = -1, .least_tokens = 1};
    struct err why = {0};
    const cJSON *member;
    cJSON_ArrayForEach (member, o)
        if (!known(member->string))
            return err_field(e, ERR_INPUT, "defaults", "'%.40s' can't be a model's default",
                             member->string);
    return settings_read(&s, o, NULL, a, &why) ||
           err_field(e, ERR_INPUT, "defaults", "%.60s: %.160s", why.field, why.text);
}

/* NULL: its row says nothing. */
static cJSON *defaults_of(const struct request *r)
{
    struct err ignored;
    const char *text = r->local ? r->local->defaults : NULL;
    return text ? json_parse(text, strlen(text), NULL, &ignored) : NULL;
}

bool local_defaults_have(const struct request *r, const char *name)
{
    cJSON *o = defaults_of(r);
    const bool has = json_member(o, name) != NULL;
    cJSON_Delete(o);
    return has;
}

void local_defaults_apply(struct settings *s, const struct request *r)
{
    struct err ignored;
    cJSON *o = defaults_of(r);
    if (o && !settings_read(s, o, NULL, r->arena, &ignored))
        settings_default(s,
                         r->worker->text); /* written by another program: as if there were none */
    cJSON_Delete(o);
}
