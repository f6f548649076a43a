/* The one door from the workers to the engine's queue. A worker's prompt is written in its own model's tokens, so while
 * the model is switched nothing may pass: not while the running answers end, not to an engine that has another model
 * already than this worker. Those who come get 503 with Retry-After, at once also while the engine hangs. Thread: the
 * request's. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"

struct engine_job;
struct engine_job_params;
struct request;

enum model_gate { GATE_OPEN, GATE_SWITCHING, GATE_UNLOADED }; /* shared.h: model_gate, set by `sluice up` */

/* False, ERR_UNAVAILABLE: the engine hangs, as its status page tells. */
bool model_gate_answers(const struct request *r, struct err *e);
/* engine_submit for a request. ERR_UNAVAILABLE (r->error_override has the time to wait) beside engine_submit's own errors. */
struct engine_job *model_gate_submit(struct request *r, const struct engine_job_params *p, struct err *e);
