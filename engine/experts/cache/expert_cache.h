/* A cache of expert records in memory, under a byte budget, in front of the model's files.
 *
 * A layer of a step says which experts it wants; those that are resident are there at once, the others are read
 * together, each once, and handed out as they come. A resident expert is never read again. What is evicted is worth
 * least over all layers (expert_eviction.h), and never what a running layer holds.
 *
 *     begin -> (take -> compute -> give)* -> end
 *
 * A device that computes on experts in a form of its own keeps them itself: then the cache is the way in, with memory for
 * what passes through, and the owner says what it holds (expert_cache_set_device_resident), so that one set of figures counts both.
 *
 * One thread, the owner (a backend's step), calls begin, take, give, end, prefetch; every other thread may call what
 * says so. The cache's plan is the model's with the experts' addresses in tables that the cache keeps: an address is
 * valid between take and give. */
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
    uint64_t budget;       /* bytes of records at most, `device_share` included; raised to expert_cache_min_bytes() + outside */
    uint64_t device_share;      /* bytes of the budget that the owner keeps experts in; 0: it keeps none */
    int32_t depth;         /* reads under way at most; 0: the reader's choice */
    uint32_t chunk;        /* bytes of a read; 0: the reader's choice */
    const char *state_dir; /* what was learnt about the experts is kept here; NULL: nowhere */
    bool no_prefetch, no_uring, no_direct; /* left out on purpose, for comparison and tests */
    bool no_trial; /* what is read ahead is judged by its bytes alone, not by time */
};

struct expert_want {
    int32_t expert;
    int32_t rows; /* of the step that go to it */
};

struct expert_counters { /* since open */
    uint64_t budget_bytes, resident_bytes, locked_bytes; /* now; locked: of resident_bytes' memory */
    uint64_t resident_experts;                           /* now */
    uint64_t asked;       /* (layer, expert) pairs wanted by steps: hits + late + misses */
    uint64_t hits;        /* resident */
    uint64_t late;        /* their read was under way already, ahead of time */
    uint64_t misses;      /* read because they were wanted */
    uint64_t evictions;
    uint64_t miss_bytes;      /* read because wanted; with prefetch and warm bytes: all that was asked of the disk */
    uint64_t prefetch_useful_bytes, prefetch_wasted_bytes; /* of what was read ahead, wanted by its layer or not */
    uint64_t warm_bytes;      /* read at the start */
    uint64_t wait_ns;         /* steps waited with nothing to compute */
    uint64_t failures;        /* records that could not be read or were not what they should be */
    bool prefetching;         /* false: switched off, or it does not pay now */
    struct expert_reader_counters disk;
};

/* Bytes of the largest records that must fit: the least budget. */
uint64_t expert_cache_min_bytes(const struct expert_layout *l);
/* Reads the hottest experts of earlier runs when state_dir knows them. */
struct expert_cache *expert_cache_open(const struct expert_cache_params *p, struct err *e);
void expert_cache_close(struct expert_cache **s); /* keeps what was learnt */
const struct model_plan *expert_cache_plan(const struct expert_cache *s);
/* How it reads: see expert_reader_method(). */
const char *expert_cache_read_method(const struct expert_cache *s);

struct expert_layer_request { /* what a step wants of one layer */
    int32_t layer;                   /* in the plan */
    const struct expert_want *wants; /* [n] */
    int32_t n, rows;                 /* rows: of the step */
    bool in_order; /* Experts are taken in the order of `wants`, so that a step that wants more than
                      the budget holds works in waves. Otherwise they are taken as they arrive. */
};
void expert_cache_begin(struct expert_cache *s, const struct expert_layer_request *request);
/* Experts that are ready and were not handed out yet, at most `max`, into ids; 0: none, which with `wait` means that
 * all were handed out. -1: a read failed; the step must fail and call end. */
int32_t expert_cache_take(struct expert_cache *s, int32_t *ids, int32_t max, bool wait, struct err *e);
struct expert_taken {
    int32_t *ids, n;         /* as above */
    int32_t *gate_up_ready, n_gate_up_ready; /* gate and up are there, down is not yet: it comes among `ids` later */
};
/* The same, each list of at most `max`, for who can begin with the heads; not in_order. With `wait`, both empty means that all
 * were handed out. False: a read failed. */
bool expert_cache_take_gate_up(struct expert_cache *s, struct expert_taken *t, int32_t max, bool wait, struct err *e);
/* Nobody reads these any more. */
void expert_cache_give(struct expert_cache *s, const int32_t *ids, int32_t n);
void expert_cache_end(struct expert_cache *s);
struct expert_prediction {
    int32_t expert;
    int32_t rank; /* among what its row is expected to want; 0: the surest */
};
/* Experts that the next MoE layer after `layer` is expected to want, surest first: read when nothing else is, as far as
 * guesses of their rank come true. Between begin and end. */
void expert_cache_prefetch(struct expert_cache *s, int32_t layer, const struct expert_prediction *predictions, int32_t n);
/* With `device_share`. Between begin and end: experts of the layer that the step wants and the owner holds, beside those that
 * begin named: they count as hits. */
void expert_cache_count_device_hits(struct expert_cache *s, int32_t layer, const struct expert_want *wants, int32_t n, int32_t rows);
struct expert_device_resident { /* by the owner, now and since open */
    uint64_t bytes, experts, evictions;
};
void expert_cache_set_device_resident(struct expert_cache *s, const struct expert_device_resident *resident);
/* Any thread. What the owner may hold now: `device_share`, or less while memory is short. */
uint64_t expert_cache_device_share(const struct expert_cache *s);
struct expert_id {
    int32_t layer, expert; /* layer of the plan; negative: nowhere */
};
/* Of these the one that is worth least, beside those of layer `except` and those that are nowhere; -1: none. */
int32_t expert_cache_least_valuable(const struct expert_cache *s, const struct expert_id *of, int32_t n, int32_t except);
/* What was read until now was read before anybody asked: counted as warm. */
void expert_cache_count_warm(struct expert_cache *s);
/* The experts that were used most, by what is known from earlier runs, hottest first; returns how many (<= cap). */
int32_t expert_cache_hottest(const struct expert_cache *s, struct expert_id *out, int32_t cap);
/* Whether prefetch would read anything now; the step may save itself the guess. */
bool expert_cache_prefetching(const struct expert_cache *s);

/* Any thread. Evicts at once what is over; what a running layer holds goes when it is given back. */
void expert_cache_set_budget(struct expert_cache *s, uint64_t bytes);
void expert_cache_counters(const struct expert_cache *s, struct expert_counters *c);
/* Writes what was learnt to the state folder, when there is one. Any thread. */
bool expert_cache_save(struct expert_cache *s, struct err *e);
