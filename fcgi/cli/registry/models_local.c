/* models_local.h: the file by which `sluice up` names the models, and its rows in shared memory. */
#include "fcgi/cli/registry/models_local.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "engine/base/size_text.h"
#include "fcgi/cli/cli_store.h"
#include "fcgi/process/local_model.h"
#include "fcgi/process/state.h"

#define MAX_FILE ((size_t)1 << 20)
#define LOOK_MS 50
#define ASK_MS 1000.0
#define SEEN_MS 5000.0 /* in which `sluice up` sees a new row */

static cJSON *read_told(const char *folder, struct err *e)
{
    char path[PATH_MAX];
    int64_t pid = 0;
    cJSON *v = file_join(path, sizeof path, folder, STATE_LOCAL_MODELS, e) && file_exists(path)
                   ? json_parse_file(path, MAX_FILE, e)
                   : NULL;
    if (v && json_get_int(v, "pid", 1, INT_MAX, &pid, e) &&
        (kill((pid_t)pid, 0) == 0 || errno == EPERM))
        return v;
    cJSON_Delete(v);
    err_set(e, ERR_UNAVAILABLE, "no `sluice up` runs on %s", folder);
    return NULL;
}

struct shared *models_local_open(const char *state, struct err *e)
{
    char folder[PATH_MAX], path[PATH_MAX];
    if (!cli_store_folder(state, folder, e))
        return NULL;
    cJSON *told = read_told(folder, e);
    const bool runs = told != NULL;
    cJSON_Delete(told);
    return runs && file_join(path, sizeof path, folder, STATE_SHARED, e) ? shared_open(path, e)
                                                                         : NULL;
}

const char *models_local_state(struct shared *s, int64_t id)
{
    const struct shared_local *l = s ? local_model_state(s, id) : NULL;
    return l ? local_state_name(l->state) : "-";
}

static struct shared_local *find(struct shared *s, int64_t id, struct err *e)
{
    struct shared_local *l = NULL;
    for (double until = clock_ms() + SEEN_MS; !l && clock_ms() < until;)
        if (!(l = local_model_state(s, id)))
            poll(NULL, 0, LOOK_MS);
    if (!l)
        err_set(e, ERR_UNAVAILABLE, "`sluice up` does not know of this model");
    return l;
}

/* A killed `sluice up` leaves its rows as they are: asked again every second. */
static bool still_runs(const char *state, double *asked_ms, struct err *e)
{
    char folder[PATH_MAX];
    if (clock_ms() - *asked_ms < ASK_MS)
        return true;
    *asked_ms = clock_ms();
    cJSON *told = cli_store_folder(state, folder, e) ? read_told(folder, e) : NULL;
    const bool runs = told != NULL;
    cJSON_Delete(told);
    return runs;
}

/* What it told of the model; the list is written a moment after the state. */
static bool explain(const struct shared_local *l, int64_t id, const char *state, struct err *e)
{
    char needed[24], room[24], folder[PATH_MAX];
    const cJSON *line, *n;
    if (l->reason == LOCAL_NO_ROOM)
        return err_set(e, ERR_UNAVAILABLE, "it needs %s of RAM, of which %s can be made free now",
                       size_text((double)l->needed, needed), size_text((double)l->free, room));
    poll(NULL, 0, LOOK_MS);
    err_set(e, ERR_UNAVAILABLE, "it can't be loaded; the server's log says why");
    cJSON *told = cli_store_folder(state, folder, NULL) ? read_told(folder, NULL) : NULL;
    cJSON_ArrayForEach (line, json_member(told, "models"))
        if ((n = json_member(line, "id")) && (int64_t)n->valuedouble == id &&
            json_text(line, "error"))
            err_set(e, ERR_UNAVAILABLE, "%s", json_text(line, "error"));
    cJSON_Delete(told);
    return false;
}

bool models_local_load(struct shared *s, int64_t id, const char *state, struct err *e)
{
    const int64_t began = clock_wall_ms();
    int last = -1;
    double asked_ms = clock_ms();
    struct shared_local *l = find(s, id, e);
    while (l && l->id == id) {
        if (!still_runs(state, &asked_ms, e))
            return false;
        const int now = l->state;
        if (now != last)
            fprintf(stderr, "%s\n", local_state_name(now));
        last = now;
        if (now == LOCAL_READY)
            return true;
        if (now == LOCAL_FAILED && l->heard_ms >= began)
            return explain(l, id, state, e);
        l->wanted_ms = clock_wall_ms();
        poll(NULL, 0, LOOK_MS);
    }
    return l && err_set(e, ERR_UNAVAILABLE, "the server has stopped, or the model was removed");
}

bool models_local_unload(struct shared *s, int64_t id, const char *state, struct err *e)
{
    double asked_ms = clock_ms();
    struct shared_local *l = find(s, id, e);
    if (!l)
        return false;
    if (l->state != LOCAL_READY)
        return err_set(e, ERR_CONFLICT, "it is not loaded (%s)", local_state_name(l->state));
    l->unload_ms = clock_wall_ms();
    while (l->id == id && (l->state == LOCAL_READY || l->state == LOCAL_LEAVING)) {
        if (!still_runs(state, &asked_ms, e))
            return false;
        poll(NULL, 0, LOOK_MS);
    }
    return true;
}
