/* local_model.h: one worker for each line of the file that `sluice up` writes. */
#define LOG_MODULE "worker"
#include "fcgi/process/local_model.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "engine/base/log.h"
#include "fcgi/process/state.h"

#define MAX_FILE ((size_t)1 << 20)

void local_model_socket(char out[WORKER_SOCKET_BYTES], const char *engine_run, int64_t id)
{
    snprintf(out, WORKER_SOCKET_BYTES, "%s/model-%lld.sock", engine_run, (long long)id);
}

void local_model_status(char out[WORKER_SOCKET_BYTES], const char *engine_run, int64_t id)
{
    snprintf(out, WORKER_SOCKET_BYTES, "%s/model-%lld.status", engine_run, (long long)id);
}

int64_t local_model_of_job(const char *key)
{
    char *end = NULL;
    const long long id = key[0] == LOCAL_MODEL_KEY ? strtoll(key + 1, &end, 10) : 0;
    return end && *end == ':' && id > 0 ? id : 0;
}

struct shared_local *local_model_state(struct shared *s, int64_t id)
{
    for (int i = 0; id && i < SHARED_LOCALS; i++)
        if (s->local[i].id == id)
            return &s->local[i];
    return NULL;
}

int local_model_state_now(struct shared *s, int64_t id)
{
    const struct shared_local *l = local_model_state(s, id);
    return l ? l->state : LOCAL_COLD;
}

int local_models_waiting(const struct shared *s)
{
    int n = 0;
    for (int i = 0; i < SHARED_CHILDREN; i++) {
        const struct shared_child *c = &s->pool[POOL_STREAM].child[i];
        n += c->pid && c->state == CHILD_BUSY && c->waits_local;
    }
    return n;
}

const char *local_state_name(int state)
{
    static const char *const names[LOCAL__N] = {"unloaded", "loading", "ready", "unloading",
                                                "failed"};
    return state >= 0 && state < LOCAL__N ? names[state] : names[LOCAL_COLD];
}

const struct worker *local_model_of(const struct worker *w, int64_t id)
{
    const struct worker *own = w->first ? w->first : w;
    for (int i = 0; i < own->n_locals; i++)
        if (own->locals[i].local_id == id)
            return &own->locals[i];
    return NULL;
}

static void close_one(struct worker *m)
{
    if (m->text)
        text_model_close((struct text_model *)m->text); /* constant for everyone but its owner */
    free((void *)m->text);
    free((void *)m->model_path);
    free((void *)m->engine_socket);
    free((void *)m->status_path);
}

void local_models_close(struct worker *w)
{
    for (int i = 0; i < w->n_locals; i++)
        close_one(&w->locals[i]);
    free(w->locals);
    w->locals = NULL;
    w->n_locals = -1;
}

/* The text of one that is open already, if it is the same row's and its files are those. */
static const struct text_model *take_text(struct worker *old, int n_old, const struct worker *m)
{
    for (int i = 0; i < n_old; i++) {
        const struct text_model *text = old[i].text;
        if (text && old[i].local_id == m->local_id && !strcmp(old[i].model_path, m->model_path) &&
            old[i].model_created == m->model_created) {
            old[i].text = NULL;
            return text;
        }
    }
    return NULL;
}

struct opening {
    const struct worker *w;
    struct worker *old; /* [n_old] those of the last list */
    int n_old;
};

static void open_text(const struct opening *o, struct worker *m)
{
    struct err e = {0};
    if ((m->text = take_text(o->old, o->n_old, m)))
        return;
    struct text_model *text = calloc(1, sizeof *text);
    if (text && text_model_open(text, m->model_path, m->cache_dir, &e)) {
        m->text = text;
        return;
    }
    log_warn("model=%s: %s", m->model_id, e.code ? e.text : "no memory");
    free(text);
}

static bool open_one(const struct opening *o, const cJSON *line, struct worker *m)
{
    const struct worker *w = o->w;
    char socket[WORKER_SOCKET_BYTES], status[WORKER_SOCKET_BYTES];
    const char *name = NULL, *path = NULL;
    int64_t id = 0;
    struct err e = {0};
    struct stat st;
    if (!json_get_int(line, "id", 1, INT64_MAX / 1024, &id, &e) ||
        !json_get_string(line, "name", &name, &e) || !json_get_string(line, "path", &path, &e) ||
        !id || !name || !path)
        return false;
    *m = *w;
    local_model_socket(socket, w->engine_run, id);
    local_model_status(status, w->engine_run, id);
    m->first = w;
    m->local_id = id;
    m->locals = NULL;
    m->n_locals = 0;
    m->text = NULL;
    m->model_path = strdup(path);
    m->engine_socket = strdup(socket);
    m->status_path = strdup(status);
    snprintf(m->model_id, sizeof m->model_id, "%s", name);
    m->model_created = stat(path, &st) == 0 ? (int64_t)st.st_mtime : clock_wall_s();
    if (m->model_path && m->engine_socket && m->status_path)
        open_text(o, m);
    return true;
}

/* The list of a `sluice up` that was killed says nothing: other engines may run here since, as
 * units. */
static cJSON *read_list(const struct worker *w)
{
    char path[4096];
    struct err ignored;
    int64_t pid = 0;
    cJSON *v =
        file_join(path, sizeof path, w->run_dir, STATE_LOCAL_MODELS, &ignored) && file_exists(path)
            ? json_parse_file(path, MAX_FILE, &ignored)
            : NULL;
    if (v && json_get_int(v, "pid", 1, INT32_MAX, &pid, &ignored) &&
        (kill((pid_t)pid, 0) == 0 || errno != ESRCH))
        return v;
    cJSON_Delete(v);
    return NULL;
}

bool local_models_open(struct worker *w, struct err *e)
{
    const bool serves = w->pool == POOL_SHORT || w->pool == POOL_STREAM; /* the others read none */
    cJSON *v = serves ? read_list(w) : NULL;
    const cJSON *line, *list = json_member(v, "models");
    const int n = cJSON_GetArraySize(list);
    struct worker last = *w; /* keeps those of the last list until the new ones are there */
    struct opening o = {.w = w, .old = last.locals, .n_old = last.n_locals};
    w->locals = NULL;
    w->n_locals = -1;
    if (!v) {
        local_models_close(&last);
        return true;
    }
    w->locals = calloc((size_t)n + 1, sizeof *w->locals);
    w->n_locals = 0;
    cJSON_ArrayForEach (line, list)
        if (w->locals && open_one(&o, line, &w->locals[w->n_locals]))
            w->n_locals++;
    local_models_close(&last);
    cJSON_Delete(v);
    return w->locals || err_set(e, ERR_NOMEM, "no memory for %d models", n);
}
