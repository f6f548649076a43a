/* model_name.h: the list of aliases is walked anew for each request; it has a thousand bytes at
 * most. */
#include "fcgi/inference/model_name.h"

#include <stdio.h>
#include <string.h>

#include "fcgi/config/server_settings.h"
#include "fcgi/http/request.h"
#include "fcgi/process/worker.h"

#define ALIAS_BYTES 128

/* The next word of *list, copied; false at its end. Words that are too long are passed over. */
static bool next_alias(const char **list, char out[ALIAS_BYTES])
{
    for (;;) {
        *list += strspn(*list, " ");
        size_t len = strcspn(*list, " ");
        if (!len)
            return false;
        const char *word = *list;
        *list += len;
        if (len < ALIAS_BYTES) {
            memcpy(out, word, len);
            out[len] = 0;
            return true;
        }
    }
}

static bool matches(const char *alias, const char *name)
{
    size_t len = strlen(alias);
    return alias[len - 1] == '*' ? !strncmp(alias, name, len - 1) : !strcmp(alias, name);
}

static bool is_served(const struct request *r, const char *name)
{
    char alias[ALIAS_BYTES];
    if (!strcmp(name, r->worker->model_id) || !strcmp(name, r->worker->text->name))
        return true;
    for (const char *list = server_setting_text(r, SETTING_MODEL_ALIASES);
         next_alias(&list, alias);)
        if (matches(alias, name))
            return true;
    return false;
}

bool model_name_is_served(const struct request *r, const char *name)
{
    static const char tag[] = ":latest";
    char bare[ALIAS_BYTES];
    const size_t len = strlen(name), end = sizeof tag - 1;
    if (is_served(r, name))
        return true;
    if (len <= end || len - end >= sizeof bare || strcmp(name + len - end, tag))
        return false;
    snprintf(bare, sizeof bare, "%.*s", (int)(len - end), name);
    return is_served(r, bare);
}

void model_name_each_alias(const struct request *r, model_alias_fn fn, void *context)
{
    char alias[ALIAS_BYTES];
    for (const char *list = server_setting_text(r, SETTING_MODEL_ALIASES);
         next_alias(&list, alias);)
        if (!strchr(alias, '*') && !fn(context, alias))
            return;
}
