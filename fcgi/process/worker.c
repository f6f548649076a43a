/* worker.h: whose a detached job is, by the name that its submitter gave it. */
#include "fcgi/process/worker.h"

#include <string.h>

#include "fcgi/process/local_model.h"

bool worker_job_relayed(const char *key)
{
    return !strncmp(key, WORKER_RELAYED_KEY, strlen(WORKER_RELAYED_KEY));
}

const char *worker_job_socket(const struct worker *w, const char *key,
                              char out[WORKER_SOCKET_BYTES])
{
    const int64_t id = local_model_of_job(key);
    if (worker_job_relayed(key))
        return w->relay_socket;
    if (!id)
        return w->first ? w->first->engine_socket : w->engine_socket;
    local_model_socket(out, w->engine_run, id);
    return out;
}
