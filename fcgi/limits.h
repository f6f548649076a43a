/* What a key's owner allowed it: requests and tokens per minute, jobs at one time. Counted in shared memory, so one limit
 * holds over all workers. Sessions and keys without limits pass at once. Thread: the request's.
 *
 * A refusal is 429 with Retry-After and code rate_limit_exceeded. Tokens: the prompt is taken before the job is
 * submitted and refused when it is not there; generated tokens are taken as they come, and may leave a debt that the
 * next request waits for. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct request;

enum limit_kind { LIMIT_REQUESTS, LIMIT_TOKENS, LIMIT_JOBS, LIMIT__N };

bool limits_any(const struct request *r); /* has the caller's key one? */
bool limits_request(struct request *r, struct err *e); /* counts one */
bool limits_enter(struct request *r, int64_t prompt_tokens, int jobs, struct err *e);
void limits_spend(struct request *r, int64_t tokens); /* generated; negative: given back */
void limits_leave(struct request *r); /* the jobs of limits_enter have ended; harmless without it */
/* x-ratelimit-limit-requests and its five sisters, as OpenAI sends them, for the limits that the key has. */
void limits_headers(struct request *r);
