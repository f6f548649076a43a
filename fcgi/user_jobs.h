/* What still runs for a user who may no longer: cancelled in the engine, whoever asked for it. */
#pragma once
#include <stdint.h>

struct request;

/* By the engine's status page: each of the user's jobs, detached or not. What it can't reach ends by itself. */
void user_jobs_cancel(struct request *r, int64_t user_id);
