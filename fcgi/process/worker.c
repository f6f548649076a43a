/* worker.h: whose a detached job is, by the name that its submitter gave it. */
#include "fcgi/process/worker.h"

#include <string.h>

bool worker_job_relayed(const char *key)
{
    return !strncmp(key, WORKER_RELAYED_KEY, strlen(WORKER_RELAYED_KEY));
}

const char *worker_job_socket(const struct worker *w, const char *key)
{
    return worker_job_relayed(key) ? w->relay_socket : w->engine_socket;
}
