/* From a text's hidden rows to its vector or its score, after a step. Pure arithmetic on the loop
 * thread; nothing is kept. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/backend/backend.h"
#include "engine/base/err.h"
#include "engine/model/plan.h"

struct text_vector {
    const struct model_plan *plan;
    int32_t yes, no; /* decoders that score: the tokens whose likelihoods are compared; -1: none */
    float *scratch;  /* [3, d] */
};

bool text_vector_init(struct text_vector *v, const struct model_plan *plan, struct err *e);
void text_vector_fini(struct text_vector *v);
/* Wanted rows of a text of n tokens: the last one, or all. */
int32_t text_vector_rows(const struct text_vector *v, int32_t n);
/* rows: [n], as text_vector_rows asked for; out: [dimensions] of length 1. */
void text_vector_embed(const struct text_vector *v, const struct step_row *rows, int32_t n,
                       int32_t dimensions, float *out);
/* 0 .. 1 */
float text_vector_score(const struct text_vector *v, const struct step_row *rows);
