/* user_jobs.h: detached jobs are found in the database, others on the engine's status page; the
 * relay finds its own. */
#include "fcgi/account/user_jobs.h"

#include <stdio.h>

#include "engine/engine.h"
#include "fcgi/http/request.h"
#include "fcgi/process/worker.h"
#include "engine/wire/status.h"
#include "sql/chats/store_record.h"

struct owner {
    struct request *r;
    int64_t user_id;
};

static bool cancel_detached(void *context, const struct store_running *row)
{
    const struct owner *o = context;
    char socket[WORKER_SOCKET_BYTES];
    if (row->user_id == o->user_id)
        engine_cancel_async(worker_job_socket(o->r->worker, row->job_key, socket), row->job_key,
                            NULL);
    return true;
}

/* What one engine does for the user. */
static void cancel_on(const struct worker *w, int64_t user_id)
{
    struct status_page page;
    struct err ignored;
    char key[32];
    if (!status_read(w->status_path, &page, &ignored))
        return;
    for (int i = 0; i < page.n_jobs && i < STATUS_JOBS; i++) {
        if (page.jobs[i].user != (uint64_t)user_id)
            continue;
        snprintf(key, sizeof key, "#%llu", (unsigned long long)page.jobs[i].id);
        engine_cancel_async(w->engine_socket, key, NULL);
    }
}

void user_jobs_cancel(struct request *r, int64_t user_id)
{
    char key[32];
    store_running_list(r->store, cancel_detached, &(struct owner){r, user_id}, NULL);
    snprintf(key, sizeof key, WORKER_USER_KEY "%llu", (unsigned long long)user_id);
    engine_cancel_async(r->worker->relay_socket, key, NULL);
    cancel_on(r->worker, user_id);
    for (int i = 0; i < r->worker->n_locals; i++)
        cancel_on(&r->worker->locals[i], user_id);
}
