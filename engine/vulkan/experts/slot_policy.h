/* Which experts have a slot on the device: decided after each step, from the experts that it used.
 * Plain arithmetic, no device; one owner.
 *
 * Each expert has a score that grows by one with each step that uses it and fades by SLOT_FADE a
 * step. An expert without a slot gets one when its score is clearly above the lowest in the slots:
 * so one that is used once does not push out one that comes back, since a copy costs as much bus
 * traffic as one read over PCIe does. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

#define SLOT_FADE 0.9f

struct slot_policy {
    int32_t n_layer, n_expert, n_slots; /* n_slots of each layer, 1 .. n_expert */
    float *score;                       /* [n_layer, n_expert] */
    int32_t *slot_of;                   /* [n_layer, n_expert]; -1: none */
    int32_t *expert_in;                 /* [n_layer, n_slots]; -1: none */
};

struct slot_move {                     /* expert comes into the slot that another left */
    int32_t layer, slot, expert, left; /* left -1: it was empty */
};

struct slot_policy_params {
    int32_t n_layer, n_expert, n_slots;
    bool empty; /* slots start empty; else slot i of each layer holds expert i */
};

bool slot_policy_open(struct slot_policy *p, const struct slot_policy_params *params,
                      struct err *e);
void slot_policy_close(struct slot_policy *p); /* accepts a zeroed struct */
/* used: bits of one layer's experts, word by word. Counts those with and without a slot. */
void slot_policy_see(struct slot_policy *p, int32_t layer, const uint32_t *used, uint64_t *hits,
                     uint64_t *misses);
struct slot_candidates { /* of one layer; bits of experts, word by word */
    int32_t layer;
    const uint32_t *used;      /* by this step */
    const uint32_t *available; /* these may move into a slot */
};

/* Moves at most `cap` experts into slots whose experts this step did not use; returns how many. */
int32_t slot_policy_move(struct slot_policy *p, const struct slot_candidates *c,
                         struct slot_move *out, int32_t cap);
