/* Waits on the engine and on the client at once, so that a disconnected client is noticed between
 * two tokens and also during a silent prefill. Thread: the request's. */
#pragma once
#include "engine/engine.h"
#include "fcgi/http/request.h"

enum watch_result {
    WATCH_EVENT, /* some job has an event (index in *which) */
    WATCH_TIMEOUT,
    WATCH_GONE,     /* the client closed; r->client_gone is set */
    WATCH_SHUTDOWN, /* this worker's grace period is over: end the stream with an error */
};

/* jobs[i] may be NULL (finished). The time spent is added to r->engine_ns. */
enum watch_result watch_jobs(struct request *r, struct engine_job *const *jobs, int n_jobs,
                             int timeout_ms, int *which);
