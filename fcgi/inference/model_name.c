/* model_name.h: the list of aliases is walked anew for each request; it has a thousand bytes at
 * most. */
#include "fcgi/inference/model_name.h"

#include <stdio.h>
#include <string.h>

#include "fcgi/config/server_settings.h"
#include "fcgi/http/request.h"
#include "fcgi/process/local_model.h"
#include "fcgi/process/worker.h"
#include "sql/models/store_models.h"

#define ALIAS_BYTES 128
#define RETRY_NEW_S 1
#define RETRY_BROKEN_S 60

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

bool model_name_is_own(const struct request *r, const char *name)
{
    return !strcmp(name, r->worker->model_id) || !strcmp(name, r->worker->text->name);
}

static bool is_served(const struct request *r, const char *name)
{
    char alias[ALIAS_BYTES];
    if (model_name_is_own(r, name))
        return true;
    for (const char *list = server_setting_text(r, SETTING_MODEL_ALIASES);
         next_alias(&list, alias);)
        if (matches(alias, name))
            return true;
    return false;
}

/* The name without Ollama's tag; false: it has none. */
static bool without_tag(const char *name, char bare[ALIAS_BYTES])
{
    static const char tag[] = ":latest";
    const size_t len = strlen(name), end = sizeof tag - 1;
    if (len <= end || len - end >= ALIAS_BYTES || strcmp(name + len - end, tag))
        return false;
    snprintf(bare, ALIAS_BYTES, "%.*s", (int)(len - end), name);
    return true;
}

bool model_name_is_served(const struct request *r, const char *name)
{
    char bare[ALIAS_BYTES];
    return is_served(r, name) || (without_tag(name, bare) && is_served(r, bare));
}

int64_t model_name_user(const struct request *r)
{
    return r->who.user_id ? r->who.user_id : -1; /* 0 would be anyone */
}

bool model_name_enter(struct request *r, const struct store_model *m, struct err *e)
{
    const struct worker *w = local_model_of(r->worker, m->id),
                        *first = r->worker->first ? r->worker->first : r->worker;
    if (!w || !w->text) {
        r->error_override.retry_after_s = w ? RETRY_BROKEN_S : RETRY_NEW_S;
        err_set(e, ERR_UNAVAILABLE, "the model '%.100s' %s", m->name,
                w                     ? "can't be opened; the server's log says why"
                : first->n_locals < 0 ? "needs `sluice up`, which does not run here"
                                      : "has just been added; try again in a moment");
        return err_reason(e, w || first->n_locals < 0 ? "model_broken" : "model_loading");
    }
    r->worker = w;
    r->local = m;
    return true;
}

void model_name_leave(struct request *r)
{
    r->model = r->local = NULL;
    if (r->worker->first)
        r->worker = r->worker->first;
}

static bool find(struct request *r, const char *name, struct err *e)
{
    struct store_model *m = arena_alloc(r->arena, sizeof *m);
    if (!m)
        return err_set(e, ERR_NOMEM, "no memory for the model");
    if (!r->store ||
        !store_model_find(r->store, r->arena,
                          &(struct store_model_ask){.user_id = model_name_user(r), .name = name}, m,
                          e))
        return false;
    if (m->path)
        return model_name_enter(r, m, e);
    r->model = m;
    return true;
}

bool model_name_take(struct request *r, const char *name, struct err *e)
{
    char bare[ALIAS_BYTES];
    struct err why = {0};
    model_name_leave(r);
    if (model_name_is_own(r, name) || find(r, name, &why) ||
        (why.code == ERR_NOTFOUND && without_tag(name, bare) && find(r, bare, &why)) ||
        model_name_is_served(r, name))
        return true;
    if (why.code != ERR_NOTFOUND && why.code != ERR_NONE) {
        *e = why;
        return false;
    }
    r->error_override.code = "model_not_found";
    return err_field(e, ERR_NOTFOUND, "model", "'%.100s' is not here; this server has '%s'", name,
                     r->worker->model_id);
}

const char *model_name_of(const struct request *r)
{
    return r->model ? r->model->name : r->worker->model_id;
}

void model_name_each_alias(const struct request *r, model_alias_fn fn, void *context)
{
    char alias[ALIAS_BYTES];
    for (const char *list = server_setting_text(r, SETTING_MODEL_ALIASES);
         next_alias(&list, alias);)
        if (!strchr(alias, '*') && !fn(context, alias))
            return;
}
