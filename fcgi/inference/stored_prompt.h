/* Which blocks of a job's prompt lie on disk: the keys of its chain are computed and looked up
 * among the rows of its user, before the job is submitted. The engine decides whether it loads
 * them. Thread: the request's. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/wire/status.h"

struct request;

struct stored_prompt { /* owner calls stored_prompt_fini; zeroed = empty */
    struct stored_ref *refs;
    int32_t n;
};

/* Nothing is found where the engine keeps no cache on disk, and where the look-up fails: that is
 * logged, and the prompt is computed. */
void stored_prompt_find(struct request *r, const struct status_page *page,
                        const struct engine_job_params *job, struct stored_prompt *out);
void stored_prompt_fini(struct stored_prompt *p);

/* Whose the job's blocks are, as the recorder reads it from what the engine stored: a page's
 * conversation, or (for an API's request) the hash of a name that the client gave. "": nobody's in
 * particular. */
void stored_prompt_owner(char out[ENGINE_CACHE_OWNER_SIZE], int64_t conversation_id);
void stored_prompt_label(char out[ENGINE_CACHE_OWNER_SIZE], const char *name);
/* Makes it that of a response that is kept, or of a conversation of /v1, and goes with it; a name
 * that was given still holds. */
void stored_prompt_own(char owner[ENGINE_CACHE_OWNER_SIZE], const char *id);
/* 0: it names no conversation. */
int64_t stored_prompt_conversation(const char *owner);
