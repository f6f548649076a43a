/* The scheduler decides which rows the next step computes, for which jobs, in which KV blocks, and
 * handles the results (continuous batching with chunked prefill).
 *
 * A step has one row for each decoding job, then prompt chunks of prefilling jobs within a budget,
 * so that a long prompt never delays running answers for long. A job is admitted when a slot is
 * free and there are blocks for all its tokens and a reserve. When blocks run out in the middle of
 * an answer, idle cached ones are taken first; then a job of the user with the most running jobs is
 * preempted, the one admitted last: it gives its blocks back and is recomputed later from the same
 * tokens and the same random positions, so its answer stays the same. The oldest job is never
 * preempted for this, so there is no deadlock. Users also take turns at the slots (slot_turns.h).
 *
 * It uses no sockets, no threads, and the clock for measuring only. The owner (the engine's loop
 * thread, or a test) calls it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/backend/backend.h"
#include "engine/base/err.h"
#include "engine/cache/block_pool.h"
#include "engine/sched/job.h"
#include "engine/sched/stats.h"
#include "engine/tokenizer/vocab.h"

struct scheduler;
struct expert_cache;
struct disk_cache;
struct draft_model;

struct scheduler_params {
    const struct backend_ops *ops;
    struct backend *backend; /* opened with the numbers below; the caller closes it, later */
    const struct vocab *vocab;
    const int32_t *eos;
    int32_t n_eos;
    int32_t n_vocab, n_ctx, n_slots, n_blocks, max_rows;
    int32_t n_recurrent;   /* > 0: each slot has the recurrent state of its number */
    int32_t n_checkpoints; /* states after those of the slots, for copies; recurrent and 0: no
                              prefix is reused */
    int32_t prefill_chunk; /* rows of prompts in a step at most; 0: max_rows */
    bool no_prefix_cache;
    enum engine_speculate speculate; /* for jobs that do not say; OFF: for all; 0 as OFF */
    int32_t provisional_rows;        /* as the backend was opened with */
    int32_t forced_drafts; /* tests only: this many tokens are drafted in each step, if it pays or
                              not; 0: as it pays */
    struct draft_model *draft_model; /* NULL: none; outlives the scheduler */
    uint64_t fingerprint;
    struct expert_cache *experts; /* the backend's expert cache, for its counters; NULL: none */
    int32_t experts_per_token;    /* per layer, as in the backend's plan; 0: the model has none */
    int32_t trained_top_k;        /* per layer, as the model was trained */
    struct disk_cache *disk;      /* opened with the backend's sizes of content; NULL: none */
    uint64_t cache_identity;      /* of what it stores, as it was opened with */
    struct status_writer *status; /* NULL: none */
};

struct scheduler *scheduler_create(const struct scheduler_params *p, struct err *e);
/* Jobs that are still there fail with ERR_UNAVAILABLE. */
void scheduler_destroy(struct scheduler **s);
/* Takes over the caller's reference. The job's prompt fits n_ctx and the pool (scheduler_fits). */
void scheduler_add(struct scheduler *s, struct job *j);
/* One round: cancellations, admissions, one step of the backend, events. False: the device is lost
 * (ERR_DEVICE), every job has failed and nothing more can run. Other failures of a step end the
 * jobs that were in it. */
bool scheduler_step(struct scheduler *s, struct err *e);
/* True when no job waits and none runs. */
bool scheduler_idle(const struct scheduler *s);
/* True if a step would have something to do although no job is there: blocks to be stored. */
bool scheduler_stores(const struct scheduler *s);
/* True if nothing goes on before the disk cache has ended a read or a write, which wakes. */
bool scheduler_waits_for_disk(const struct scheduler *s);
void scheduler_cancel_all(struct scheduler *s); /* at the next step */
/* Without jobs: takes note of what the disk cache was told to forget, and publishes. */
void scheduler_rest(struct scheduler *s);
/* Adds to the idle time. */
void scheduler_note_idle(struct scheduler *s, double seconds);
/* Puts counters and the jobs' list on the page; scheduler_step does it by itself. */
void scheduler_publish(struct scheduler *s);

struct scheduler_counts {
    int32_t running, waiting;
    struct block_counts blocks;
    int32_t free_slots;
    uint64_t steps, rows, preempted; /* since the start */
};
struct scheduler_counts scheduler_counts(const struct scheduler *s);
/* The estimated wait, in seconds, of a job that is queued now. */
double scheduler_expected_wait(const struct scheduler *s);
