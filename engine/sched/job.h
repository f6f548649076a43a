/* A job: one prompt and its answer, inside the engine. The I/O thread creates it from a SUBMIT
 * frame and hands it to the loop thread; both hold references. The first group of fields never
 * changes after that, the second is shared by both threads, the third belongs to the loop thread
 * alone. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/cache/prefix_index.h"
#include "engine/engine.h"
#include "engine/grammar/grammar.h"
#include "engine/sched/client/event_log.h"
#include "engine/sched/sampling/sampler.h"
#include "engine/sched/sampling/token_rules.h"
#include "engine/sched/policy/slot_turns.h"
#include "engine/sched/speculation.h"
#include "engine/sched/sampling/text_output.h"

enum job_state {
    JOB_WAITING = 1,
    JOB_PREFILL,
    JOB_DECODE,  /* 1 .. 3 as in status_job.state */
    JOB_LOADING, /* stored blocks come from the disk; shown as prefill, which it stands for */
    JOB_OVER
};

struct disk_load;

struct job_cache {          /* prompt_disk.h: what comes from the disk */
    struct disk_load *load; /* while JOB_LOADING; NULL then: another job loads what it wants */
    uint64_t behind;        /* that job's id */
    double began_ms;
    int32_t next, end;           /* blocks: that comes next, behind the last */
    struct stored_ref *known;    /* [n_stored] where they lie */
    int32_t n_stored;            /* blocks from the first on that are on disk */
    int32_t from_disk, from_ram; /* tokens of n_cached */
    uint64_t bytes;
    double ms;
    const char *miss; /* engine_usage.cache_miss; NULL: never admitted */
};

struct job_times { /* milliseconds of clock_ms; 0: not yet */
    double submitted, admitted, first_row, first_token, last_token;
    double paused; /* when it was last preempted */
    /* How long it was preempted before its first token, and after it: time in the queue. */
    double paused_prefill, paused_decode;
};

struct job {
    uint64_t id;
    struct arena *arena;             /* params point into it */
    struct engine_job_params params; /* max_tokens already cut to what the context leaves */
    int64_t submitted_wall_ms;

    atomic_int references;
    atomic_bool cancel; /* set by anyone, obeyed between two steps */
    atomic_bool over;   /* set by the loop once the last event is in the log */
    atomic_bool queued; /* waits for a slot; set by the loop, counted by the I/O thread */
    struct event_log log;

    enum job_state state;
    uint64_t admission; /* order of admission; the last one is preempted first */
    int32_t slot;       /* -1: none; also the index of the recurrent state */
    int32_t n_experts;  /* experts of a layer that its rows use; 0: as in the backend's plan */
    int32_t *tokens;    /* prompt, then answer: [n_tokens] */
    int32_t n_tokens, cap_tokens;
    int32_t n_computed;  /* tokens whose KV is computed */
    int32_t n_generated; /* sampled so far, an end-of-sequence token included */
    int32_t n_scored;    /* prompt_scores.h: rows of the prompt whose scores were sent */
    int32_t n_texts_begun, n_texts_done; /* embedder.h: in steps, and with their vectors */
    int32_t n_cached; /* prompt tokens found in the cache at the first admission */
    struct job_cache cache;
    int32_t *blocks; /* [n_blocks], each with a reference of ours */
    int32_t n_blocks, cap_blocks;
    int32_t n_indexed;         /* blocks that the prefix index has seen */
    struct prefix_chain chain; /* behind block n_indexed - 1 */
    /* Recurrent models: token positions at which the state is copied while the prompt is read (0:
     * none). They are the end of a known prefix that has no copy yet, which other jobs will share,
     * and the prompt's last whole block. */
    int32_t branch_at, prompt_end_at;
    int32_t resume_state;  /* the copy that the job starts from, if n_computed > 0 at admission */
    int32_t rolling_block; /* the block with the answer's latest checkpoint; -1: none */
    bool preempted;
    struct slot_turn turn; /* slot_turns.h */
    struct sampler *sampler;
    struct token_rules rules;    /* that the sampler obeys */
    struct grammar_run *grammar; /* NULL: free text; destroyed before the job is over */
    bool held;                   /* sits this step out: its grammar's mask is being made */
    struct job_drafts drafts;    /* speculation.h */
    struct text_output output;
    struct job_times times;
    double experts[ENGINE_EXPERT__N]; /* its share of what its steps used */
    struct job *previous, *next;      /* in a list of the scheduler */
    struct buf
        last_event; /* DONE or FAILED, appended to the log after the status page was published */
};

/* Takes ownership of the arena and of what params point to, even on failure. The caller has one
 * reference. */
struct job *job_create(uint64_t id, struct arena *arena, const struct engine_job_params *params,
                       struct err *e);
void job_ref(struct job *j);
void job_unref(struct job **j); /* accepts NULL, nulls *j */
/* From its first token to its last, without the time in which it was preempted. */
double job_decode_ms(const struct job *j);
/* Appends one token to the history. */
bool job_push_token(struct job *j, int32_t id);
/* Room for n tokens in all, those beyond n_tokens without a meaning of their own. */
bool job_reserve_tokens(struct job *j, int32_t n);
bool job_reserve_blocks(struct job *j, int32_t n);
