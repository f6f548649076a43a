/* Which resident expert goes when another needs its memory: by what was wanted lately, or by what is wanted usually beside
 * it. The second keeps what comes again and again (7 to 11 % fewer misses while text goes on as it does), the first what a
 * new subject needs (the second has 2 to 6 % more misses then): docs/speed/streaming.md. So both name the expert that they would let
 * go, and where they differ, the one that is wanted again first shows which of them was wrong; lately wrong, the other
 * decides. After LeCaR (Vietri et al., "Driving Cache Replacement with ML-based LeCaR", HotStorage 2018), with pairs in
 * place of its two lists of evicted entries.
 *
 * Layers by their index in the layout. Not thread-safe: the cache's lock guards it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/experts/policy/expert_history.h"

enum eviction_rule { EVICT_BY_RECENCY, EVICT_BY_FREQUENCY, EVICT__N };

struct eviction_layer { /* its experts that may go: the one worth least by each rule, or -1 */
    int32_t least[EVICT__N];
    bool known; /* else they are to be looked for */
};

struct expert_eviction {
    const struct expert_history *history;
    struct eviction_layer *layers; /* [n_layers] */
    bool *may_go;        /* [n] by expert of all layers */
    int32_t *rival;      /* [n] the one that the other rule named when this one was named, or -1: not known yet who was wrong */
    uint8_t *named_by;   /* [n] the rule, where there is a rival */
    double frequency_lead;  /* how much oftener that rule was right lately */
};

struct eviction_choice {
    int32_t layer, expert; /* -1: none may go */
    int32_t named[EVICT__N];
};

/* *h must outlive it. */
bool expert_eviction_init(struct expert_eviction *v, const struct expert_history *h, struct err *e);
void expert_eviction_fini(struct expert_eviction *v); /* accepts a zeroed struct */
/* Whether this expert is there and held by nobody: it may be chosen. None may at first. */
void expert_eviction_allow(struct expert_eviction *v, int32_t layer, int32_t expert, bool may_go);
/* After expert_history_advance() and expert_history_touch(). */
void expert_eviction_advance(struct expert_eviction *v, int32_t layer, int32_t rows);
void expert_eviction_wanted(struct expert_eviction *v, int32_t layer, int32_t expert);
/* Of the layers whose class_of is size_class, or of all where that is negative. */
struct eviction_choice expert_eviction_choose(struct expert_eviction *v, const int32_t *class_of, int32_t size_class);
/* The choice is carried out. */
void expert_eviction_done(struct expert_eviction *v, const struct eviction_choice *c);
enum eviction_rule expert_eviction_rule(const struct expert_eviction *v);
