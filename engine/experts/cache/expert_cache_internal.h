/* The internals of the cache, shared by expert_cache.c (opening, memory, counters),
 * expert_session.c (a layer of a step), expert_arrival.c (finished reads), expert_prefetch.c and
 * expert_device_share.c. `lock` guards everything that changes after open; the owner releases it
 * while it waits for a read. */
#pragma once
#include <pthread.h>

#include "engine/experts/cache/expert_cache.h"
#include "engine/experts/cache/expert_slots.h"
#include "engine/experts/policy/expert_eviction.h"
#include "engine/experts/policy/expert_history.h"

enum want_state { WANT_MISSING, WANT_READING, WANT_READY, WANT_OUT, WANT_GIVEN };

struct want {
    int32_t expert, slot; /* slot -1: none yet */
    enum want_state state;
    bool gate_up_ready,
        gate_up_taken; /* gate and up have arrived; they were handed out before down */
};

struct session {   /* the running layer */
    int32_t layer; /* index in the layout; -1: none runs */
    int32_t rows;  /* of the step */
    bool in_order, failed;
    struct want *wants; /* [n] */
    int32_t n, cap;
    int32_t *order; /* [n] the order in which missing ones are read */
    int32_t next;   /* first entry of `order` that may still be missing */
    int32_t n_out;  /* handed out so far, including those given back */
    struct err failure;
};

#define PREFETCH_SLOTS 256
#define PREFETCH_RANKS 16 /* predictions of this rank and lower ones share an entry */
#define PREFETCH_PHASES (8 * PREFETCH__N)
enum prefetch_mode {
    PREFETCH_ALL,
    PREFETCH_FIRST,
    PREFETCH_NONE,
    PREFETCH__N
}; /* prefetch all predictions; one record per row; none */
struct prefetch_rank { /* predictions of experts that were not resident; old ones count less */
    double made, right;
};
struct prefetch { /* what is being prefetched, and whether it pays */
    struct expert_prediction
        predictions[PREFETCH_SLOTS]; /* [n_predictions] of experts that are not resident, for layer
                                        `predicted_layer` */
    int32_t n_predictions, predicted_layer;
    struct prefetch_rank ranks[PREFETCH_RANKS];
    int32_t slots[PREFETCH_SLOTS],
        n;                    /* with slot.prefetched set; entries that lost the mark are skipped */
    int32_t useful, wasted;   /* records of this window */
    int32_t pause;            /* layers that the next suspension lasts */
    int32_t suspended_layers; /* layers until prefetching is tried again; 0: it is on */
    struct prefetch_trial {
        int32_t phase;  /* 1 .. PREFETCH_PHASES: each mode in turn; then the best; 0: not begun */
        int32_t layers; /* left of this phase */
        enum prefetch_mode mode; /* of this phase */
        uint64_t last_ns;        /* when the previous layer began, or 0 */
        int32_t last_asked;      /* experts that it wanted */
        uint64_t ns[PREFETCH__N],
            asked[PREFETCH__N]; /* of the phases so far; each earlier trial counts half as much */
        enum prefetch_mode chosen; /* by the last trial */
        int32_t chosen_tokens;     /* how long it stays; 0: no trial has ended yet */
    } trial;
};

struct expert_cache {
    struct expert_cache_params params;
    struct model_plan plan;       /* the model's, with tables for experts */
    struct weight_planes *tables; /* [layers] of gate, up, down [n_expert] */
    int32_t *layer_of;            /* [n_layer of the plan] index in the layout, or -1 */
    int32_t *slot_of;             /* [history.n] or -1 */
    struct expert_reader *reader;
    struct expert_slots slots;
    struct expert_history history;
    struct expert_eviction eviction;
    struct session session;
    struct prefetch prefetch;
    pthread_mutex_t lock;
    uint64_t budget, smallest; /* of the slots, without the device's share */
    uint64_t device_share;     /* what the device may hold now */
    struct expert_device_resident device_resident;
    struct expert_counters counters;
    uint64_t saved_ns;
    uint32_t reads_since_check; /* of records whose checksum has matched before */
    int32_t *unverified; /* [n_unverified of slots.n] slots whose checksum is still to be computed;
                            some have lost the mark */
    int32_t n_unverified;
};

/* expert_cache.c. Under the lock. */
/* Where the plan has the address of an expert's matrix. */
struct weight_planes *expert_cache_table_entry(struct expert_cache *s, int32_t layer, int matrix,
                                               int32_t expert);
int32_t *expert_cache_slot_of(struct expert_cache *s, int32_t layer, int32_t expert);
/* Call after any change of the slot's state, pins or `prefetched`: updates whether it may be
 * evicted. */
void expert_cache_update_evictable(struct expert_cache *s, const struct expert_slot *slot);
/* A layer wants these. */
void expert_cache_record_use(struct expert_cache *s, int32_t layer, const struct expert_want *wants,
                             int32_t n, int32_t rows);
/* Gets memory for a record of this layer, evicting others; NULL when everything is pinned. The slot
 * is SLOT_READING. */
struct expert_slot *expert_cache_acquire(struct expert_cache *s, int32_t layer, int32_t expert);
/* Forgets the slot's record and returns its memory to the system. */
void expert_cache_evict(struct expert_cache *s, struct expert_slot *slot);
/* Forgets the record, but keeps the memory for the next one. */
void expert_cache_make_spare(struct expert_cache *s, struct expert_slot *slot);
/* Evicts what is over the budget and not pinned. */
void expert_cache_shrink(struct expert_cache *s);
void expert_cache_start_read(struct expert_cache *s, struct expert_slot *slot, bool urgent);

struct hot_expert {
    int32_t layer, expert; /* layer's index in the layout */
    double rank;
};
/* Lists all experts that were ever used, hottest first, in list [history.n]; returns how many. */
int32_t expert_cache_list_hottest(struct expert_cache *s, struct hot_expert *list);

/* expert_arrival.c. Under the lock. */
/* Verifies a finished read and makes its expert available, or releases the slot and sets *e. */
bool expert_cache_enter(struct expert_cache *s, struct expert_job *job, struct err *e);
/* Makes gate and up available before the rest has arrived, and so before they can be verified. */
void expert_cache_enter_gate_up(struct expert_cache *s, const struct expert_job *job);
/* Computes the checksum of one record that has none yet; false: there is no such record. Takes up
 * to a millisecond. */
bool expert_cache_checksum_one(struct expert_cache *s);

/* expert_prefetch.c. Under the lock. */
/* The predicted layer has begun: what was prefetched for it and is not wanted counts as wasted. The
 * wants are entered already. */
void expert_prefetch_settle(struct expert_cache *s, int32_t layer);
void expert_prefetch_count(struct expert_cache *s, const struct expert_slot *slot, bool useful);
bool expert_prefetch_enabled(const struct expert_cache *s);
