/* Top-k selection and weights over a row of logits: the inner loops of sampling, where a vocabulary
 * has 150 000 entries and a step takes milliseconds. Pure functions. */
#pragma once
#include <stdint.h>

struct candidate {
    float logit;
    int32_t id;
};

/* The k best of a row, best first: greater logit, equal ones by lower id. out has k places; k <= n.
 */
void topk_select(const float *logits, int32_t n, int32_t k, struct candidate *out);
/* Sorts a list in that order. */
void topk_sort(struct candidate *list, int32_t n);
int32_t topk_argmax(const float *logits, int32_t n);

/* exp((logit - max) * sharpness) as out[i], for logit <= max and sharpness = 1 / temperature,
 * finite; 1 at the greatest, 0 below e^-87 and at -inf; relative error under 1e-5 there, 1e-6 near
 * the greatest. Returns the sum. */
double topk_weights(const float *logits, int32_t n, float max, float sharpness, float *out);
float topk_weight(float logit, float max, float sharpness); /* one of them, to the bit */
