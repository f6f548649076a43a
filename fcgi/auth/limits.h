/* The limits that an owner sets for a key and an admin for a user: requests and tokens per minute,
 * concurrent jobs, and for users also tokens per day and stored bytes. Minutes and jobs are counted
 * in shared memory, so a limit holds over all workers; the day and the bytes are counted in the
 * database. A caller without limits costs nothing. Thread: the request's.
 *
 * A refusal is 429 with Retry-After and code rate_limit_exceeded, insufficient_quota for the day's
 * tokens (until midnight, UTC); 413 and code storage_quota_exceeded for bytes. Tokens: the prompt
 * is taken before the job is submitted and refused when it is not there; generated tokens are taken
 * as they come, and may leave a debt that the next request waits for. An answer that runs is never
 * cut short: the day may end with more than its limit, by what ran when it was reached. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct request;
struct shared;
struct store;
struct store_limits_given;
struct store_user_limits;

enum limit_kind { LIMIT_REQUESTS, LIMIT_TOKENS, LIMIT_JOBS, LIMIT_DAY, LIMIT_STORAGE, LIMIT__N };

bool limits_load(struct request *r,
                 struct err *e);          /* the user's; once per request, after auth_identify */
bool limits_any(const struct request *r); /* has the caller's key one? */
bool limits_request(struct request *r, struct err *e); /* counts one */
/* prompt_tokens: 0 where they aren't known yet and limits_take takes them later. */
/* jobs 0: an aside, of which a user has one at a time. */
bool limits_enter(struct request *r, int64_t prompt_tokens, int jobs, struct err *e);
bool limits_take(struct request *r, int64_t prompt_tokens, struct err *e); /* of an entered job */
void limits_spend(struct request *r, int64_t tokens); /* generated; negative: given back */
void limits_leave(struct request *r); /* the jobs of limits_enter have ended; harmless without it */
/* May the user keep so many bytes more? 413. Asked before work is done for it; of several who come
 * at once the store lets in those who fit (storage_bytes of what is written), and
 * limits_storage_refused says its refusal in the same words. */
bool limits_storage(struct request *r, int64_t more, struct err *e);
bool limits_storage_refused(struct request *r,
                            struct err *e); /* always false; other errors stay as they are */
/* A user's limits: their own, else those of their groups, else what the settings say for everyone.
 */
bool limits_of_user(struct request *r, int64_t user_id, struct store_user_limits *out, bool *own,
                    struct err *e);
/* For the recorder: tokens of an answer that no request follows. */
void limits_spend_user(struct shared *s, struct store *store, int64_t user_id, int64_t tokens);
/* x-ratelimit-limit-requests and its five sisters, as OpenAI sends them, for the limits of the key,
 * else of the user. */
void limits_headers(struct request *r);
/* The same with where each comes from: all five are said. */
bool limits_given(struct request *r, int64_t user_id, struct store_limits_given *out,
                  struct err *e);
/* The five limits of a user as the API tells them. */
void limits_put(cJSON *o, const struct store_user_limits *l);
/* What limits_given found, as "effective" and "limit_sources". groups: the user's, with "id" and
 * "name". */
void limits_put_given(cJSON *o, const struct store_limits_given *given, const cJSON *groups);
