/* Rotary positions: tables of cos and sin per step, rotation of one head in place. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/model/plan.h"

/* Fills cos_sin [n_dims / 2, 2] for one position. */
void rope_fill(const struct rope_plan *r, int32_t position, float *cos_sin);
/* head [d_head]: its first n_dims dimensions turn. */
void rope_apply(const struct rope_plan *r, const float *cos_sin, float *head);
bool rope_same(const struct rope_plan *a, const struct rope_plan *b);
