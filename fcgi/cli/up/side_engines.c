/* up.h: the engines beside the one that answers, for embeddings and for scores. Each is opened here
 * once, without its weights, so that a model that can't do what it is for is refused at the start,
 * and the engine that answers leaves them their memory. */
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/backend/backend.h"
#include "engine/base/thread_pool.h"
#include "engine/memory/memory_plan.h"
#include "engine/model/model.h"
#include "engine/sched/embed/embed_load.h"
#include "engine/sched/inbox.h"
#include "fcgi/cli/up/up.h"
#include "fcgi/process/side_model.h"

#define SLOTS 64      /* texts of a step at most */
#define MAX_QUEUE 256 /* requests that wait; a quarter of them of one user */
/* Of the texts that wait, and of the largest job, which is being read meanwhile. */
#define WAITING_BYTES ((INBOX_TEXT_TOKENS + ENGINE_MAX_PROMPT) * INBOX_TOKEN_BYTES)

struct side { /* one of them as options */
    const char *option, *child;
    const char **path;
    enum engine_task task;
};

static int list(struct up *u, struct side out[SIDE_MODELS])
{
    out[0] =
        (struct side){"embedding-model", "engine-embed", &u->embedding_model, ENGINE_TASK_EMBED};
    out[1] = (struct side){"rerank-model", "engine-score", &u->rerank_model, ENGINE_TASK_SCORE};
    return SIDE_MODELS;
}

static int32_t threads_of(const struct up *u)
{
    if (u->embedding_threads)
        return (int32_t)u->embedding_threads;
    const int32_t half = thread_pool_default_threads() / 2;
    return half > 1 ? half : 1;
}

/* What its engine will take. */
static bool add_memory(struct up *u, const struct side *s, struct err *e)
{
    struct memory_request request = {.size = {.slots = SLOTS}, .exact = u->exact};
    struct backend_memory taken;
    struct model *m = model_open(*s->path, e);
    struct vocab *v = m ? vocab_load(*s->path, u->cache, e) : NULL;
    bool ok = v && embed_load_check(s->task, model_plan(m), v, e) &&
              embed_load_request(model_plan(m), &request, e);
    if (ok) {
        const struct backend_params p = {.n_blocks = request.fixed.n_blocks,
                                         .max_rows = request.fixed.max_rows,
                                         .max_sequences = request.fixed.n_slots,
                                         .n_threads = threads_of(u),
                                         .kv_type = request.kv_type,
                                         .exact = u->exact};
        ok = cpu_backend.probe->estimate(model_plan(m), &p, &taken, e);
        u->beside += ok ? taken.host + WAITING_BYTES + MEMORY_PROCESS_BYTES : 0;
    }
    vocab_close(&v);
    model_close(&m);
    return ok || err_prefix(e, "--%s", s->option);
}

bool up_side_models(struct up *u, struct err *e)
{
    struct side sides[SIDE_MODELS];
    char real[PATH_MAX];
    for (int i = 0, n = list(u, sides); i < n; i++) {
        const struct side *s = &sides[i];
        if (!*s->path)
            continue;
        if (!up_hub_model(u, s->path, e))
            return false;
        if (!realpath(*s->path, real))
            return err_errno(e, "%s %s", s->option, *s->path);
        *s->path = arena_strdup(u->arena, real);
        if (!add_memory(u, s, e))
            return false;
    }
    return true;
}

static char *in_run(struct up *u, const char *name)
{
    return up_in_dir(u, u->engine_run ? u->engine_run : u->state, name);
}

void up_add_side_engines(struct up *u, struct supervisor *s)
{
    struct side sides[SIDE_MODELS];
    for (int i = 0, n = list(u, sides); i < n; i++) {
        const struct side *side = &sides[i];
        char *argv[] = {up_in_dir(u, u->bin_dir, "sluice-engine"),
                        "--model",
                        (char *)*side->path,
                        "--task",
                        (char *)engine_task_name(side->task),
                        "--socket",
                        in_run(u, side_model_socket_name(side->task)),
                        "--status",
                        in_run(u, side_model_status_name(side->task)),
                        "--cache-dir",
                        u->engine_cache,
                        "--slots",
                        up_number(u, SLOTS),
                        "--max-queue",
                        up_number(u, MAX_QUEUE),
                        "--threads",
                        up_number(u, threads_of(u)),
                        "--prompt-cache-disk",
                        "off",
                        "--speculate",
                        "off",
                        "--log-level",
                        (char *)u->log_level,
                        "--log-ring",
                        u->log_ring,
                        u->exact ? "--exact" : "--no-exact",
                        u->without_landlock ? "--without-landlock" : "--no-without-landlock",
                        u->without_seccomp ? "--without-seccomp" : "--no-without-seccomp",
                        u->engine_user.given ? "--peer" : NULL,
                        up_number(u, (int64_t)u->user.uid),
                        NULL};
        if (*side->path)
            up_add_child(s, side->child, argv, SIGTERM)->as =
                u->engine_user.given ? &u->engine_user : NULL;
    }
}

void up_forget_side_engines(struct up *u)
{
    struct side sides[SIDE_MODELS];
    for (int i = 0, n = list(u, sides); i < n; i++)
        unlink(in_run(u, side_model_status_name(sides[i].task)));
}
