/* Eviction: which resident expert makes room for another, by recency or by frequency. Frequency
 * keeps what is used again and again (7 to 11 % fewer misses while the text continues as before);
 * recency adapts to a new subject (frequency has 2 to 6 % more misses then):
 * docs/speed/streaming.md. So both rules name a candidate. Where they differ, the candidate that is
 * wanted again first shows which rule was wrong, and the rule that was wrong less often lately
 * decides. After LeCaR (Vietri et al., "Driving Cache Replacement with ML-based LeCaR", HotStorage
 * 2018), with pairs in place of its two lists of evicted entries.
 *
 * Layers are indices in the layout. Not thread-safe: the cache's lock guards it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/experts/policy/expert_history.h"

enum eviction_rule { EVICT_BY_RECENCY, EVICT_BY_FREQUENCY, EVICT__N };

struct eviction_layer { /* the least valuable evictable expert by each rule, or -1 */
    int32_t least[EVICT__N];
    bool known; /* false: `least` is to be computed */
};

struct expert_eviction {
    const struct expert_history *history;
    struct eviction_layer *layers; /* [n_layers] */
    bool *evictable;               /* [n] by expert of all layers */
    int32_t *rival; /* [n] the other rule's candidate when this one was named, while undecided; else
                       -1 */
    uint8_t *named_by;     /* [n] the rule, where there is a rival */
    double frequency_lead; /* how much more often frequency was right lately; decays */
};

struct eviction_choice {
    int32_t layer, expert; /* -1: none may go */
    int32_t named[EVICT__N];
};

/* *h must outlive it. */
bool expert_eviction_init(struct expert_eviction *v, const struct expert_history *h, struct err *e);
void expert_eviction_fini(struct expert_eviction *v); /* accepts a zeroed struct */
/* Says whether this expert is resident and not pinned, so that it may be chosen. At first none may.
 */
void expert_eviction_allow(struct expert_eviction *v, int32_t layer, int32_t expert,
                           bool evictable);
/* After expert_history_advance() and expert_history_touch(). */
void expert_eviction_advance(struct expert_eviction *v, int32_t layer, int32_t rows);
void expert_eviction_wanted(struct expert_eviction *v, int32_t layer, int32_t expert);
/* Chooses among layers whose class_of is size_class, or among all if that is negative. */
struct eviction_choice expert_eviction_choose(struct expert_eviction *v, const int32_t *class_of,
                                              int32_t size_class);
/* The chosen expert was evicted: remembers the pair of candidates. */
void expert_eviction_done(struct expert_eviction *v, const struct eviction_choice *c);
enum eviction_rule expert_eviction_rule(const struct expert_eviction *v);
