/* A scheduler over the fake backend, and readers for what its jobs say. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/cache/disk/disk_cache.h"
#include "engine/sched/scheduler.h"

#define N_CTX 512
#define RIG_EXPERTS 4 /* per token, as the backend's plan and the model say */

struct rig {
    struct backend *backend;
    struct scheduler *scheduler;
    uint64_t last_id;
};

struct outcome {
    int32_t ids[N_CTX], n;
    struct buf text;
    bool done, failed;
    enum engine_finish finish;
    char stop[64];
    struct engine_usage usage;
    struct err error;
    int n_progress;
};

int rig_load_vocab(void **state); /* group fixtures: the demo model's vocabulary */
int rig_unload_vocab(void **state);
const struct vocab *rig_vocab(void);

/* n_checkpoints -1: a model without recurrent layers. */
void rig_init_recurrent(struct rig *r, int32_t slots, int32_t n_blocks, int32_t chunk,
                        int32_t n_checkpoints);
void rig_init(struct rig *r, int32_t slots, int32_t n_blocks, int32_t chunk);
/* Schedulers that are made from now on store there; NULL: nowhere. */
void rig_use_disk(struct disk_cache *cache, uint64_t identity);
/* Schedulers that are made from now on draft: as many tokens as are forced in each step, or 0: as
 * it pays. */
void rig_use_drafts(enum engine_speculate speculate, int32_t forced);
/* Schedulers that are made from now on have this draft model; NULL: none. */
void rig_use_draft_model(struct draft_model *m);
void rig_fini(struct rig *r);
/* Nothing is held any more: the leak test of every path. */
void assert_all_returned(const struct rig *r, int32_t slots);
/* Greedy, no stops, no logprobs. */
struct engine_job_params params_of(const int32_t *prompt, int32_t n, int32_t max_tokens);
/* Gives the job to the scheduler and returns a reference of our own. */
struct job *add(struct rig *r, const struct engine_job_params *p);
/* Steps until nothing is left to do. */
void run(struct rig *r);
/* All events so far, from the first. */
void read_log(struct job *j, struct outcome *o);
void fill_prompt(int32_t *prompt, int32_t n, unsigned seed);
/* The answer is the one that plain recursion over fake_greedy gives. */
void assert_greedy(struct job *j);
