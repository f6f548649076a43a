/* A row of logits with its candidates, and a sampler over it. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sched/sampling/random.h"
#include "engine/sched/sampling/sampler.h"
#include "engine/sched/sampling/topk.h"

#define N 300

struct fixture {
    struct sampler_workspace *work;
    float logits[N];
    int32_t top_ids[BACKEND_MAX_TOP];
    float top_logits[BACKEND_MAX_TOP];
    struct step_row row;
};

int setup(void **state);
int teardown(void **state);
void make_row(struct fixture *f, uint64_t seed);
void fill_candidates(struct fixture *f);
struct engine_sampling neutral(void);

void pick(struct fixture *f, struct sampler *sampler, const struct step_row *row,
          int32_t top_logprobs, struct engine_token *token);

int32_t pick_one(struct fixture *f, const struct engine_sampling *s, struct engine_token *token);
void set_row(struct fixture *f, const float *first, int n);
