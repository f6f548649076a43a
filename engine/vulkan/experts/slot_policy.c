/* Scores of experts, and the moves into slots that they justify. */
#include "engine/vulkan/experts/slot_policy.h"

#include <stdlib.h>

#define MARGIN 0.5f /* of a score over that which it displaces */

static bool is_used(const uint32_t *used, int32_t expert)
{
    return used[expert / 32] >> (expert % 32) & 1;
}

bool slot_policy_open(struct slot_policy *p, const struct slot_policy_params *params, struct err *e)
{
    const int32_t n_layer = params->n_layer, n_expert = params->n_expert, n_slots = params->n_slots;
    const size_t experts = (size_t)n_layer * (size_t)n_expert,
                 slots = (size_t)n_layer * (size_t)n_slots;
    *p = (struct slot_policy){.n_layer = n_layer,
                              .n_expert = n_expert,
                              .n_slots = n_slots,
                              .score = calloc(experts, sizeof(float)),
                              .slot_of = calloc(experts, sizeof(int32_t)),
                              .expert_in = calloc(slots, sizeof(int32_t))};
    if (!p->score || !p->slot_of || !p->expert_in) {
        slot_policy_close(p);
        return err_set(e, ERR_NOMEM, "no memory for the list of expert slots");
    }
    for (size_t i = 0; i < experts; i++) {
        int32_t expert = (int32_t)(i % (size_t)n_expert);
        p->slot_of[i] = expert < n_slots && !params->empty ? expert : -1;
    }
    for (size_t i = 0; i < slots; i++)
        p->expert_in[i] = params->empty ? -1 : (int32_t)(i % (size_t)n_slots);
    return true;
}

void slot_policy_close(struct slot_policy *p)
{
    free(p->score);
    free(p->slot_of);
    free(p->expert_in);
    *p = (struct slot_policy){0};
}

void slot_policy_see(struct slot_policy *p, int32_t layer, const uint32_t *used, uint64_t *hits,
                     uint64_t *misses)
{
    float *score = p->score + (size_t)layer * (size_t)p->n_expert;
    const int32_t *slot = p->slot_of + (size_t)layer * (size_t)p->n_expert;
    for (int32_t i = 0; i < p->n_expert; i++) {
        score[i] *= SLOT_FADE;
        if (is_used(used, i)) {
            score[i] += 1;
            *(slot[i] >= 0 ? hits : misses) += 1;
        }
    }
}

/* An empty slot, or that whose expert has the lowest score among those that the step did not use;
 * -1: none. */
static int32_t weakest(const struct slot_policy *p, int32_t layer, const uint32_t *used)
{
    const float *score = p->score + (size_t)layer * (size_t)p->n_expert;
    const int32_t *in = p->expert_in + (size_t)layer * (size_t)p->n_slots;
    int32_t worst = -1;
    for (int32_t s = 0; s < p->n_slots; s++) {
        if (in[s] < 0)
            return s;
        if (!is_used(used, in[s]) && (worst < 0 || score[in[s]] < score[in[worst]]))
            worst = s;
    }
    return worst;
}

static int32_t strongest_outside(const struct slot_policy *p, int32_t layer,
                                 const uint32_t *available)
{
    const float *score = p->score + (size_t)layer * (size_t)p->n_expert;
    const int32_t *slot = p->slot_of + (size_t)layer * (size_t)p->n_expert;
    int32_t best = -1;
    for (int32_t i = 0; i < p->n_expert; i++)
        if (slot[i] < 0 && is_used(available, i) && (best < 0 || score[i] > score[best]))
            best = i;
    return best;
}

int32_t slot_policy_move(struct slot_policy *p, const struct slot_candidates *c,
                         struct slot_move *out, int32_t cap)
{
    const int32_t layer = c->layer;
    const float *score = p->score + (size_t)layer * (size_t)p->n_expert;
    int32_t *slot = p->slot_of + (size_t)layer * (size_t)p->n_expert;
    int32_t *in = p->expert_in + (size_t)layer * (size_t)p->n_slots, n = 0;
    while (n < cap) {
        int32_t comes = strongest_outside(p, layer, c->available), at = weakest(p, layer, c->used);
        if (comes < 0 || at < 0 || (in[at] >= 0 && score[comes] <= score[in[at]] + MARGIN))
            break;
        out[n++] = (struct slot_move){layer, at, comes, in[at]};
        if (in[at] >= 0)
            slot[in[at]] = -1;
        slot[comes] = at;
        in[at] = comes;
    }
    return n;
}
