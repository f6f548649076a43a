/* The state of the scheduler, shared by scheduler.c (life of a job), admission.c (slots and
 * blocks), batch.c (a step) and prompt_scores.c. Private to these. */
#pragma once
#include "engine/cache/checkpoints.h"
#include "engine/cache/prefix_index.h"
#include "engine/draft/recall.h"
#include "engine/sched/expert_stats.h"
#include "engine/sched/fair_queue.h"
#include "engine/sched/policy/draft_worth.h"
#include "engine/sched/policy/prefill_budget.h"
#include "engine/sched/prompt_disk.h"
#include "engine/sched/prompt_scores.h"
#include "engine/sched/scheduler.h"

struct scheduler {
    struct scheduler_params params;
    struct prefix_index *index;
    struct block_pool *pool;         /* the index's */
    struct checkpoints *checkpoints; /* NULL: no recurrent layers, or no room for copies */
    bool reuse;                      /* the prefix cache is on */
    struct recall *recall;    /* the words of the index's blocks; NULL: nobody drafts by them */
    struct prompt_disk *disk; /* NULL: no prompt cache on disk */
    struct fair_queue *queue;
    struct job **running; /* [n_slots], in order of admission */
    int32_t n_running;
    int32_t *free_slots; /* [n_slots] stack */
    int32_t n_free_slots;
    uint64_t n_admissions, n_preempted, n_waits, n_rounds;
    struct job *favoured; /* waits for what was taken from another user's job; nobody goes before */
    /* The job that could not be admitted for lack of blocks, and how many were available then. It
     * is not tried again until more are. */
    uint64_t blocked_id;
    int32_t blocked_available;

    struct step_sequence *sequences; /* [n_slots] of the step being built */
    struct job **members;            /* [n_slots] the jobs of these sequences */
    struct step_row *rows; /* [n_slots + PROMPT_SCORE_ROWS + DRAFT_ROWS_MAX] one row per job, the
                              scored rows and those of drafts */
    int32_t n_members, decode_rows, scored_rows;
    int32_t n_held; /* jobs that sit it out */
    struct prefill_budget prefill_budget;
    struct draft_costs draft_costs;
    struct draft_habit draft_habit; /* over all jobs */
    struct draft_trials draft_trials;
    double drafting_ms;    /* asking a draft model, for the step that is being built, */
    double drafts_late_ms; /* but for what disturbed that; */
    double free_drafts_ms; /* making the other drafts */

    struct job *ended; /* linked by next; their last events are sent after the status page */
    struct sampler_workspace *work;
    struct token_trie *trie;
    struct grammar_cache *grammars;
    struct stats stats;
    struct expert_stats expert_stats;
    struct buf frames, text; /* scratch of one event */
};

static inline int32_t blocks_for(int32_t n_tokens)
{
    return (n_tokens + BACKEND_BLOCK_TOKENS - 1) / BACKEND_BLOCK_TOKENS;
}

/* scheduler.c */
/* Sends an event to the job's readers; false when its log is full. */
bool scheduler_emit(struct scheduler *s, struct job *j, const struct engine_event *ev);
/* How far the job's prompt is. */
void scheduler_emit_progress(struct scheduler *s, struct job *j);
/* Takes the job out of its slot, blocks and queue, and prepares its last event. */
void scheduler_finish_job(struct scheduler *s, struct job *j, enum engine_finish finish,
                          const char *stop_string);
void scheduler_fail_job(struct scheduler *s, struct job *j, const struct err *e);
void scheduler_count_experts(const struct scheduler *s, struct expert_stats *now);

/* admission.c */
void admission_admit_waiting(struct scheduler *s);
/* Gets blocks for the first n_tokens positions, preempting later jobs if necessary. False: the job
 * itself was preempted. */
bool admission_ensure_blocks(struct scheduler *s, struct job *j, int32_t n_tokens);
/* The same for positions that may never be needed: from blocks that are left over, so that nobody
 * is preempted for it. False: there are none. */
bool admission_spare_blocks(struct scheduler *s, struct job *j, int32_t n_tokens);
/* Adds full, computed blocks to the prefix index. */
void admission_index_blocks(struct scheduler *s, struct job *j);
/* Recurrent models: the position at which the job's prompt is cut to copy its state, or 0; and the
 * copy itself, once the job stands at the end of a block. */
int32_t admission_next_checkpoint(const struct job *j);
void admission_save_checkpoint(struct scheduler *s, struct job *j);
/* Gives back the slot and blocks of a running job and takes it off the list. */
void admission_release(struct scheduler *s, struct job *j);
/* Puts a job at the end of its user's queue. False: no memory. */
bool admission_queue(struct scheduler *s, struct job *j);
/* A running job that waited while another loaded what it wants as well: it begins anew with what
 * the device has by now. */
void admission_look_again(struct scheduler *s, struct job *j);
/* Takes a waiting job off the queue. */
void admission_unqueue(struct scheduler *s, struct job *j);

/* batch.c */
/* Fills sequences, members and the row counts. */
void batch_build(struct scheduler *s);
bool batch_run(struct scheduler *s, struct err *e);
