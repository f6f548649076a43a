/* The only way from the workers to the engine's queue. A prompt consists of the tokens of its
 * worker's model, so no job may be submitted while the model is switched: neither while the running
 * answers end, nor to an engine that already runs another model than this worker. Such requests get
 * 503 with Retry-After, and so do requests while the engine hangs, without waiting for it. Thread:
 * the request's. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"

struct engine_job;
struct engine_job_params;
struct request;
struct status_page;

enum model_gate {
    GATE_OPEN,
    GATE_SWITCHING,
    GATE_UNLOADED
}; /* shared.h: model_gate, set by `sluice up` */

/* False, ERR_UNAVAILABLE: the engine that has the job of this key hangs, as its status page tells.
 */
bool model_gate_answers(const struct request *r, const char *key, struct err *e);
/* Why no job is taken now, as an error's reason: "model_unloaded", "model_switching",
 * "model_loading", "engine_hangs", "device_failed", "engine_unavailable"; NULL: jobs are taken. */
const char *model_gate_reason(const struct request *r, const struct status_page *page);
/* engine_submit for a request. ERR_UNAVAILABLE (r->error_override has the time to wait) beside
 * engine_submit's own errors. */
struct engine_job *model_gate_submit(struct request *r, const struct engine_job_params *p,
                                     struct err *e);
/* Of an ERR_BUSY: the queue is full; or the user has as many jobs waiting as one may have, which is
 * theirs to mend. */
void model_gate_explain_busy(struct request *r, struct err *e);
