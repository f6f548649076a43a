/* Whether sampled tokens follow the model's distribution: each draw falls at a cumulative share of
 * it, within its token's own share at random, and these are spread evenly if they do. */
#pragma once
#include <stdint.h>

#include "engine/engine.h"

#define DRAW_TEST_BINS 20
#define DRAW_TEST_CHI_SQUARE 36.19 /* p = 0.01 with 19 degrees of freedom */

struct draw_test { /* zeroed: no draws */
    int32_t n, bins[DRAW_TEST_BINS];
    uint64_t random;
};

/* Draws that can be counted: from the candidates that the events name. */
void draw_test_sampling(struct engine_job_params *p, uint64_t seed);
void draw_test_count(struct draw_test *t, const struct engine_token *token);
double draw_test_chi_square(const struct draw_test *t);
