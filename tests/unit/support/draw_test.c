/* draw_test.h: where a draw falls in the distribution that its event names, counted in bins. */
#include "tests/unit/support/draw_test.h"

#include <assert.h>
#include <math.h>

#define TEMPERATURE 0.8f

void draw_test_sampling(struct engine_job_params *p, uint64_t seed)
{
    p->top_logprobs = ENGINE_MAX_TOP_LOGPROBS;
    p->sampling.temperature = TEMPERATURE;
    p->sampling.top_k = ENGINE_MAX_TOP_LOGPROBS;
    p->sampling.top_p = 1;
    p->sampling.presence_penalty = 0;
    p->sampling.seed = seed;
}

void draw_test_count(struct draw_test *t, const struct engine_token *token)
{
    double total = 0, before = 0, own = 0;
    for (int32_t i = 0; i < token->n_top; i++) {
        const double share = exp((double)(token->top[i].logprob / TEMPERATURE));
        own = token->top[i].id == token->id ? share : own;
        before += own > 0 ? 0 : share;
        total += share;
    }
    assert(own > 0);
    t->random = t->random * 6364136223846793005u + 1442695040888963407u;
    const double within = (double)(t->random >> 40) / (1 << 24);
    const int bin = (int)((before + within * own) / total * DRAW_TEST_BINS);
    t->bins[bin < DRAW_TEST_BINS ? bin : DRAW_TEST_BINS - 1]++;
    t->n++;
}

double draw_test_chi_square(const struct draw_test *t)
{
    const double each = (double)t->n / DRAW_TEST_BINS;
    double sum = 0;
    for (int i = 0; i < DRAW_TEST_BINS; i++)
        sum += (t->bins[i] - each) * (t->bins[i] - each) / each;
    return sum;
}
