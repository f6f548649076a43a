/* Locally typical sampling (Meister, Pimentel, Wiher, Cotterell, "Locally Typical Sampling", 2023):
 * of the tokens kept are those whose surprise is nearest to the distribution's entropy, until they
 * hold the share typical_p of it.
 *
 * Surprise falls as the logit rises, so what is kept is one interval of the tokens in order; and
 * with scaled logits x = (logit - max) / temperature the distance from the entropy is |x - mean|,
 * mean being the average of x: no logarithm of the sum is needed. Pure functions. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/sched/sampling/topk.h"

struct typical {
    float max, sharpness; /* of the distribution: x = (logit - max) * sharpness */
    double total, sum;    /* of the weights; of x times weight */
    double mean;          /* of x */
    double wanted;        /* weight that is to be kept: typical_p * total */
};

/* max and sharpness are set, the rest is zeroed: adds a token of the distribution with its
 * topk_weight. */
void typical_add(struct typical *t, float logit, float weight);
/* After the last one. */
void typical_want(struct typical *t, float typical_p);
struct typical_list {
    const struct candidate *at; /* [n] the distribution's best in order, n >= 1 */
    int32_t n;
    bool complete; /* the list has every token with a weight */
};
struct typical_range { /* at[from .. from + n) is kept: one token at least */
    int32_t from, n;
};
/* False: the range may reach past the list's end. */
bool typical_interval(const struct typical *t, const struct typical_list *list,
                      struct typical_range *kept);
