/* Creates jobs, counts references to them and frees them. */
#include "engine/sched/job.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"

/* Unread bytes of a job's only reader, and the whole of a detached one: about 100 000 tokens with 5
 * logprobs. */
#define LOG_LIMIT ((size_t)8 << 20)
#define KEPT_LOG_LIMIT ((size_t)32 << 20)

struct job *job_create(uint64_t id, struct arena *arena, const struct engine_job_params *params,
                       struct err *e)
{
    struct job *j = calloc(1, sizeof *j);
    int32_t *tokens = malloc(((size_t)params->n_prompt + 64) * sizeof *tokens);
    if (!j || !tokens) {
        free(j);
        free(tokens);
        arena_destroy(&arena);
        err_set(e, ERR_NOMEM, "no memory for a job");
        return NULL;
    }
    j->id = id;
    j->arena = arena;
    j->params = *params;
    j->submitted_wall_ms = clock_wall_ms();
    j->times.submitted = clock_ms();
    atomic_init(&j->references, 1);
    event_log_init(&j->log, params->detached ? KEPT_LOG_LIMIT : LOG_LIMIT, params->detached);
    atomic_init(&j->queued, true);
    j->state = JOB_WAITING;
    j->slot = -1;
    j->rolling_block = -1;
    j->tokens = tokens;
    memcpy(tokens, params->prompt, (size_t)params->n_prompt * sizeof *tokens);
    j->n_tokens = params->n_prompt;
    j->cap_tokens = params->n_prompt + 64;
    return j;
}

void job_ref(struct job *j)
{
    atomic_fetch_add(&j->references, 1);
}

void job_unref(struct job **at)
{
    struct job *j = *at;
    *at = NULL;
    if (!j || atomic_fetch_sub(&j->references, 1) > 1)
        return;
    speculation_end(&j->drafts);
    sampler_destroy(&j->sampler);
    token_rules_fini(&j->rules);
    text_output_fini(&j->output);
    event_log_fini(&j->log);
    buf_fini(&j->last_event);
    arena_destroy(&j->arena);
    free(j->tokens);
    free(j->blocks);
    free(j->cache.known);
    free(j);
}

double job_decode_ms(const struct job *j)
{
    const struct job_times *t = &j->times;
    return t->first_token > 0 ? t->last_token - t->first_token - t->paused_decode : 0;
}

static bool grow(int32_t **array, int32_t *cap, int32_t n)
{
    if (n <= *cap)
        return true;
    int32_t larger = *cap * 2 > n ? *cap * 2 : n;
    int32_t *grown = realloc(*array, (size_t)larger * sizeof *grown);
    if (!grown)
        return false;
    *array = grown;
    *cap = larger;
    return true;
}

bool job_push_token(struct job *j, int32_t id)
{
    if (!grow(&j->tokens, &j->cap_tokens, j->n_tokens + 1))
        return false;
    j->tokens[j->n_tokens++] = id;
    return true;
}

bool job_reserve_tokens(struct job *j, int32_t n)
{
    return grow(&j->tokens, &j->cap_tokens, n);
}

bool job_reserve_blocks(struct job *j, int32_t n)
{
    return grow(&j->blocks, &j->cap_blocks, n);
}
