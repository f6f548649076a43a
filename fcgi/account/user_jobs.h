/* Cancels the jobs that the engine and the relay still run for a user who may no longer use it. */
#pragma once
#include <stdint.h>

struct request;

/* The answers of the user's conversations by their rows, the rest by the engine's status page. What
 * it can't reach ends by itself. */
void user_jobs_cancel(struct request *r, int64_t user_id);
