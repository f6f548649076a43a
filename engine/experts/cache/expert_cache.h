/* A cache of expert records in memory, under a byte budget, in front of the model's files.
 *
 * A layer of a step says which experts it wants. Resident ones are ready at once; the others are
 * read together, each once, and handed out as they arrive. The record to evict is the least
 * valuable one over all layers (expert_eviction.h), and never one that the running layer holds.
 *
 *     begin -> (take -> compute -> give)* -> end
 *
 * A device that repacks experts keeps them in memory of its own (device_share). Then records pass
 * through this cache on their way there, in a small staging memory, and the owner reports what it
 * holds (expert_cache_set_device_resident), so that one set of counters covers both.
 *
 * One thread, the owner (a backend's step), calls begin, take, give, end and prefetch; any thread
 * may call what says so. The plan of the cache is the model's with the addresses of experts in
 * tables that the cache maintains: an address is valid between take and give. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/experts/io/expert_reader.h"
#include "engine/experts/pack/expert_layout.h"

struct expert_cache;

struct expert_cache_params {
    const struct expert_layout *layout; /* must outlive the cache */
    const struct model_plan *plan;      /* that the layout was made from; must outlive the cache */
    uint64_t budget;       /* bytes of records at most, `device_share` included; raised to
                              expert_cache_min_bytes() + outside */
    uint64_t device_share; /* of the budget, for the device's own experts; 0: it keeps none */
    int32_t depth;         /* reads in flight at most; 0: the reader's choice */
    uint32_t chunk;        /* bytes of a read; 0: the reader's choice */
    const char *state_dir; /* the use history of the experts is saved here; NULL: it is not saved */
    bool no_prefetch, no_uring, no_direct; /* switched off for comparison and tests */
    bool no_trial; /* prefetching is judged by useful records alone, not by time */
};

struct expert_want {
    int32_t expert;
    int32_t rows; /* of the step that go to it */
};

struct expert_counters { /* since open */
    uint64_t budget_bytes, resident_bytes,
        locked_bytes;          /* now; locked: of resident_bytes' memory */
    uint64_t resident_experts; /* now */
    uint64_t asked;            /* (layer, expert) pairs wanted by steps: hits + late + misses */
    uint64_t hits;             /* resident */
    uint64_t late;             /* being prefetched when they were wanted */
    uint64_t misses;           /* read because they were wanted */
    uint64_t evictions;
    uint64_t miss_bytes; /* read on demand; with prefetched and warm bytes: all disk reads */
    uint64_t prefetch_useful_bytes,
        prefetch_wasted_bytes; /* prefetched, and then wanted by the layer or not */
    uint64_t warm_bytes;       /* read at the start */
    uint64_t wait_ns;          /* time steps waited with nothing to compute */
    uint64_t failures;         /* records that could not be read or failed their checksum */
    bool prefetching;          /* false: switched off, or suspended because it does not pay */
    struct expert_reader_counters disk;
};

/* The smallest budget that works: room for a few of the largest records. */
uint64_t expert_cache_min_bytes(const struct expert_layout *l);
/* Reads the most used experts of earlier runs if state_dir has a history of them. */
struct expert_cache *expert_cache_open(const struct expert_cache_params *p, struct err *e);
void expert_cache_close(struct expert_cache **s); /* saves the use history */
const struct model_plan *expert_cache_plan(const struct expert_cache *s);
/* See expert_reader_method(). */
const char *expert_cache_read_method(const struct expert_cache *s);

struct expert_layer_request {        /* what a step wants of one layer */
    int32_t layer;                   /* in the plan */
    const struct expert_want *wants; /* [n] */
    int32_t n, rows;                 /* rows: of the step */
    bool in_order; /* Experts are taken in the order of `wants`, so that a step that wants more than
                      the budget holds works in waves. Otherwise they are taken as they arrive. */
};
void expert_cache_begin(struct expert_cache *s, const struct expert_layer_request *request);
/* Experts that are ready and were not handed out yet, at most `max`, into ids; 0: none, which with
 * `wait` means that all were handed out. -1: a read failed; the step must fail and call end. */
int32_t expert_cache_take(struct expert_cache *s, int32_t *ids, int32_t max, bool wait,
                          struct err *e);
struct expert_taken {
    int32_t *ids, n;                         /* as above */
    int32_t *gate_up_ready, n_gate_up_ready; /* gate and up have arrived, down has not: the expert
                                                comes among `ids` later */
};
/* The same for a caller that can start with gate and up, each list of at most `max`; not with
 * in_order. With `wait`, both lists empty means that all were handed out. False: a read failed. */
bool expert_cache_take_gate_up(struct expert_cache *s, struct expert_taken *t, int32_t max,
                               bool wait, struct err *e);
/* The caller has finished reading these. */
void expert_cache_give(struct expert_cache *s, const int32_t *ids, int32_t n);
void expert_cache_end(struct expert_cache *s);
struct expert_prediction {
    int32_t expert;
    int32_t rank; /* among the predictions of its row; 0: the most likely */
};
/* Predicts the experts of the next MoE layer after `layer`, the most likely first. They are read
 * when the disk is otherwise idle, as far as predictions of their rank have come true. Between
 * begin and end. */
void expert_cache_prefetch(struct expert_cache *s, int32_t layer,
                           const struct expert_prediction *predictions, int32_t n);
/* With `device_share`, between begin and end: counts as hits the experts that the step wants and
 * the device already holds, beside those passed to begin. */
void expert_cache_count_device_hits(struct expert_cache *s, int32_t layer,
                                    const struct expert_want *wants, int32_t n, int32_t rows);
struct expert_device_resident { /* what the device holds now; evictions since open */
    uint64_t bytes, experts, evictions;
};
void expert_cache_set_device_resident(struct expert_cache *s,
                                      const struct expert_device_resident *resident);
/* Any thread. The bytes that the device may hold now: `device_share`, or less while memory is
 * short. */
uint64_t expert_cache_device_share(const struct expert_cache *s);
struct expert_id {
    int32_t layer, expert; /* layer of the plan; negative: nowhere */
};
/* The index of the least valuable of these, without those of layer `except` and those that are
 * nowhere; -1: none. */
int32_t expert_cache_least_valuable(const struct expert_cache *s, const struct expert_id *of,
                                    int32_t n, int32_t except);
/* Counts all reads up to now as warm-up reads. */
void expert_cache_count_warm(struct expert_cache *s);
/* The most used experts of earlier runs, hottest first; returns how many (<= cap). */
int32_t expert_cache_hottest(const struct expert_cache *s, struct expert_id *out, int32_t cap);
/* False if prefetch would read nothing now, so that the step need not predict. */
bool expert_cache_prefetching(const struct expert_cache *s);

/* Any thread. Evicts at once what is over the budget, except what a running layer holds: that is
 * evicted when it is given back. */
void expert_cache_set_budget(struct expert_cache *s, uint64_t bytes);
void expert_cache_counters(const struct expert_cache *s, struct expert_counters *c);
/* Saves the use history to the state folder, if there is one. Any thread. */
bool expert_cache_save(struct expert_cache *s, struct err *e);
