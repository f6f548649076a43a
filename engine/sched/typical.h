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

#include "engine/sched/topk.h"

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
/* list: the distribution's best in order, n >= 1; complete: all of them that have a weight. The
 * interval that is kept is list[*from .. *from + *n_kept), one token at least. False: it may reach
 * past the list's end. */
bool typical_interval(const struct typical *t, const struct candidate *list, int32_t n,
                      bool complete, int32_t *from, int32_t *n_kept);
