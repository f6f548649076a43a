/* The queue through which the I/O thread hands jobs to the loop thread, and the limits that the
 * loop announces. One mutex, one condition; nothing is computed under the lock. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/sched/job.h"
#include "engine/sched/job_table.h"
#include "engine/sched/speculation.h"

struct inbox_limits {
    int32_t n_vocab, n_ctx, max_queue;
    int32_t trained_top_k; /* experts of a layer per token, as trained; 0: the model has none */
    struct speculation_applied speculate;
    enum engine_task task;
    int32_t dimensions; /* of the model's vectors */
};

enum inbox_state { INBOX_LOADING, INBOX_OPEN, INBOX_CLOSED };

struct inbox {
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t more;
    enum inbox_state state;
    struct err refusal; /* while not open: why */
    struct inbox_limits limits;
    struct job *first, *last; /* handed over, not yet taken */
    int32_t n_pending;
    int32_t n_waiting; /* as the loop last said */
    double expected_wait_s;
    bool woken, stop;
};

void inbox_init(struct inbox *in); /* loading: submissions are refused as ERR_UNAVAILABLE */
void inbox_fini(struct inbox *in); /* releases jobs that were not taken */

/* Tokens of texts that wait to be read, of all embedding jobs together; a user who has some waiting
 * may have a quarter. */
#define INBOX_TEXT_TOKENS ((int64_t)4 << 20)
/* What a token takes while its job waits: as it came, and in the job's history. */
#define INBOX_TOKEN_BYTES (2 * sizeof(int32_t))

/* I/O thread. Checks a job against the limits and cuts max_tokens to what the context leaves;
 * *position: how many wait before it. ERR_UNAVAILABLE, ERR_BUSY (with an estimate; field
 * ENGINE_OWN_JOBS: its user has waiting what one user may have), ERR_LIMIT, ERR_INPUT. */
bool inbox_check(struct inbox *in, struct engine_job_params *p, const struct jobs_waiting *waiting,
                 int32_t *position, struct err *e);
void inbox_push(struct inbox *in, struct job *j); /* takes over one reference */
void inbox_wake(struct inbox *in); /* a cancel flag was set; ends a wait in inbox_take */
void inbox_stop(struct inbox *in); /* the loop is to end */

/* Loop thread. */
void inbox_open(struct inbox *in, const struct inbox_limits *limits);
void inbox_close(struct inbox *in, const struct err *why); /* any thread */
/* Waits up to timeout_ms for a job, a wake-up or a stop; 0: does not wait. Returns the list of new
 * jobs (linked by next) or NULL; *stop: inbox_stop was called. */
struct job *inbox_take(struct inbox *in, int timeout_ms, bool *stop);
void inbox_report(struct inbox *in, int32_t n_waiting, double expected_wait_s);
