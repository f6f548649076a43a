/* See rope.h. (a, b) -> (a cos - b sin, b cos + a sin) for each pair of dimensions. */
#include "engine/cpu/rope.h"

#include <math.h>
#include <string.h>

void rope_fill(const struct rope_plan *r, int32_t position, float *cos_sin)
{
    for (int32_t i = 0; i < r->n_dims / 2; i++) {
        float angle = (float)position * r->inv_freq[i];
        cos_sin[2 * i] = cosf(angle) * r->scale;
        cos_sin[2 * i + 1] = sinf(angle) * r->scale;
    }
}

void rope_apply(const struct rope_plan *r, const float *cos_sin, float *head)
{
    int32_t half = r->n_dims / 2;
    for (int32_t i = 0; i < half; i++) {
        float *a = r->interleaved ? head + 2 * i : head + i;
        float *b = r->interleaved ? head + 2 * i + 1 : head + half + i;
        float c = cos_sin[2 * i], s = cos_sin[2 * i + 1], first = *a;
        *a = first * c - *b * s;
        *b = *b * c + first * s;
    }
}

bool rope_same(const struct rope_plan *a, const struct rope_plan *b)
{
    return a->n_dims == b->n_dims && a->interleaved == b->interleaved && a->scale == b->scale &&
           !memcmp(a->inv_freq, b->inv_freq, (size_t)(a->n_dims / 2) * sizeof a->inv_freq[0]);
}
