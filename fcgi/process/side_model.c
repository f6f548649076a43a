/* Opens the text sides of the models beside the one that answers, and finds them by their task. */
#include "fcgi/process/side_model.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/clock.h"
#include "fcgi/process/state.h"
#include "fcgi/process/worker.h"
#include "sql/core/digest.h"

const char *side_model_socket_name(enum engine_task task)
{
    return task == ENGINE_TASK_EMBED ? STATE_EMBED_SOCKET : STATE_SCORE_SOCKET;
}

const char *side_model_status_name(enum engine_task task)
{
    return task == ENGINE_TASK_EMBED ? STATE_EMBED_STATUS : STATE_SCORE_STATUS;
}

static char *in_folder(const char *folder, const char *name)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

static void add_file(struct digest *d, const char *folder, const char *name)
{
    struct stat st;
    char text[4352];
    const int n = snprintf(text, sizeof text, "%s%s%s", folder, *name ? "/" : "", name);
    if (n < 0 || (size_t)n >= sizeof text || stat(text, &st) != 0 || S_ISDIR(st.st_mode))
        return;
    const int len = snprintf(text, sizeof text, "%.255s %lld %lld\n", name, (long long)st.st_size,
                             (long long)st.st_mtime);
    digest_add(d, text, (size_t)len);
}

/* Read when the model is opened: later its files are hidden. A copy of it counts as another. */
static void take_fingerprint(struct side_model *m, const char *path)
{
    struct digest d;
    char text[DIGEST_TEXT_SIZE];
    struct dirent **names = NULL;
    const int n = scandir(path, &names, NULL, alphasort);
    digest_begin(&d);
    digest_add(&d, m->id, strlen(m->id) + 1);
    if (n < 0)
        add_file(&d, path, "");
    for (int i = 0; i < n; i++) {
        add_file(&d, path, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    digest_end(&d, text);
    memcpy(m->fingerprint, text, sizeof m->fingerprint - 1);
}

bool side_model_open(struct worker *w, enum engine_task task, const char *path, struct err *e)
{
    struct side_model *m = &w->side[task - ENGINE_TASK_EMBED];
    struct stat st;
    *m = (struct side_model){
        .task = task,
        .engine_socket = in_folder(w->engine_run, side_model_socket_name(task)),
        .status_path = in_folder(w->engine_run, side_model_status_name(task)),
    };
    if (!m->engine_socket || !m->status_path)
        return err_set(e, ERR_NOMEM, "no memory");
    if (!text_model_open(&m->text, path, w->cache_dir, e))
        return false;
    m->path = path;
    _Static_assert(sizeof m->id == sizeof m->text.name, "an id is a model's name");
    memcpy(m->id, m->text.name, sizeof m->id);
    take_fingerprint(m, path);
    m->created = stat(path, &st) == 0 ? (int64_t)st.st_mtime : clock_wall_s();
    return true;
}

void side_models_close(struct worker *w)
{
    for (int i = 0; i < SIDE_MODELS; i++) {
        struct side_model *m = &w->side[i];
        if (m->path)
            text_model_close(&m->text);
        free((void *)m->engine_socket);
        free((void *)m->status_path);
        *m = (struct side_model){0};
    }
}

const struct side_model *side_model_of(const struct worker *w, enum engine_task task)
{
    const struct side_model *m = &w->side[task - ENGINE_TASK_EMBED];
    return m->path ? m : NULL;
}
