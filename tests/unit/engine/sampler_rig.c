/* Makes rows and their candidates, and draws from them. */
#include "tests/unit/engine/sampler_rig.h"

int setup(void **state)
{
    struct err e = {0};
    struct fixture *f = calloc(1, sizeof *f);
    f->work = sampler_workspace_create(N, &e);
    *state = f;
    return f->work ? 0 : -1;
}

int teardown(void **state)
{
    struct fixture *f = *state;
    sampler_workspace_destroy(&f->work);
    free(f);
    return 0;
}

void make_row(struct fixture *f, uint64_t seed)
{
    for (int32_t i = 0; i < N; i++) /* steps of 1/8: equal logits are common */
        f->logits[i] = floorf((float)random_uniform(seed, (uint64_t)i) * 80) / 8 - 5;
}

void fill_candidates(struct fixture *f)
{
    bool used[N] = {false};
    double sum = 0;
    for (int32_t i = 0; i < N; i++)
        sum += exp((double)f->logits[i]);
    for (int32_t k = 0; k < BACKEND_MAX_TOP; k++) {
        int32_t best = -1;
        for (int32_t i = 0; i < N; i++)
            if (!used[i] && (best < 0 || f->logits[i] > f->logits[best]))
                best = i;
        used[best] = true;
        f->top_ids[k] = best;
        f->top_logits[k] = f->logits[best];
    }
    f->row = (struct step_row){.top_ids = f->top_ids,
                               .top_logits = f->top_logits,
                               .log_sum_exp = (float)log(sum),
                               .logits = f->logits};
}

struct engine_sampling neutral(void)
{
    return (struct engine_sampling){.top_p = 1, .repetition_penalty = 1, .temperature = 1};
}

void pick(struct fixture *f, struct sampler *sampler, const struct step_row *row,
          int32_t top_logprobs, struct engine_token *token)
{
    const struct sampler_input in = {
        .row = row, .n_top = BACKEND_MAX_TOP, .top_logprobs = top_logprobs};
    sampler_pick(sampler, f->work, &in, token);
}

int32_t pick_one(struct fixture *f, const struct engine_sampling *s, struct engine_token *token)
{
    struct err e = {0};
    struct sampler *sampler = sampler_create(s, N, &e);
    assert_non_null(sampler);
    pick(f, sampler, &f->row, 20, token);
    sampler_destroy(&sampler);
    return token->id;
}

void set_row(struct fixture *f, const float *first, int n)
{
    for (int32_t i = 0; i < N; i++)
        f->logits[i] = -INFINITY;
    if (n)
        memcpy(f->logits, first, (size_t)n * sizeof *first);
    fill_candidates(f);
}
