/* Sampling: the same token from candidates and from whole rows, the right distribution, no NaN
 * anywhere. */
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
#include "tests/unit/engine/sampler_rig.h"

static void test_philox_gives_the_published_numbers(void **state)
{
    /* Random123's known answers for philox4x32-10 */
    static const uint32_t zero[4], ones[4] = {~0u, ~0u, ~0u, ~0u};
    static const uint32_t expect_zero[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    static const uint32_t expect_ones[4] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
    uint32_t out[4];
    random_philox(zero, zero, out);
    assert_memory_equal(out, expect_zero, sizeof out);
    random_philox(ones, ones, out);
    assert_memory_equal(out, expect_ones, sizeof out);
}

static void test_greedy_takes_the_greatest_and_lowest_id(void **state)
{
    struct fixture *f = *state;
    struct engine_token token;
    struct engine_sampling s = neutral();
    s.temperature = 0;
    make_row(f, 1);
    f->logits[200] = f->logits[77] = 50;
    fill_candidates(f);
    assert_int_equal(pick_one(f, &s, &token), 77);
    s.presence_penalty = 0.001f; /* the same over the whole row */
    assert_int_equal(pick_one(f, &s, &token), 77);
}

/* The path over whole rows is taken when there is a bias: one of 0 changes nothing but the path. */
static void test_candidates_and_whole_rows_give_the_same_token(void **state)
{
    struct fixture *f = *state;
    static const struct engine_bias none = {5, 0};
    int differ = 0;
    for (uint64_t i = 0; i < 2000; i++) {
        struct engine_token a, b;
        struct engine_sampling s = neutral();
        s.seed = i * 77;
        s.temperature = 0.05f + (float)(i % 40) / 10;
        s.top_k = 1 + (int32_t)(i % BACKEND_MAX_TOP);
        s.top_p = i % 3 ? 0.9f : 1;
        s.min_p = i % 5 ? 0 : 0.05f;
        s.typical_p = i % 7 ? 0 : 0.6f;
        make_row(f, i);
        fill_candidates(f);
        pick_one(f, &s, &a);
        s.bias = &none;
        s.n_bias = 1;
        pick_one(f, &s, &b);
        differ += a.id != b.id;
        assert_true(a.logprob == b.logprob);
    }
    assert_int_equal(differ, 0);
}

static void test_when_whole_rows_are_wanted(void **state)
{
    static const struct engine_bias one = {5, 1};
    static const struct {
        float temperature;
        int32_t top_k;
        float presence;
        int32_t n_bias;
        bool wants;
        int32_t n_top;
    } cases[] = {
        {0, 0, 0, 0, false, 1},     {0, 50, 0, 0, false, 1}, {1, 20, 0, 0, false, 20},
        {1, 128, 0, 0, false, 128}, {1, 129, 0, 0, true, 1}, {1, 0, 0, 0, true, 1},
        {0, 0, 0.5f, 0, true, 1},   {1, 20, 0, 1, true, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e = {0};
        struct engine_sampling s = neutral();
        s.temperature = cases[i].temperature;
        s.top_k = cases[i].top_k;
        s.presence_penalty = cases[i].presence;
        s.bias = &one;
        s.n_bias = cases[i].n_bias;
        struct sampler *sampler = sampler_create(&s, N, &e);
        assert_int_equal(sampler_wants_logits(sampler), cases[i].wants);
        assert_int_equal(sampler_n_top(sampler, -1), cases[i].n_top);
        assert_int_equal(sampler_n_top(sampler, 20), cases[i].n_top > 20 ? cases[i].n_top : 20);
        sampler_destroy(&sampler);
    }
}

/* Draws 20 000 times and compares with the probabilities: five standard deviations. */
static void assert_distribution(struct fixture *f, struct engine_sampling s, const double *expected)
{
    enum { DRAWS = 20000 };
    int counts[N] = {0};
    for (uint64_t i = 0; i < DRAWS; i++) {
        struct engine_token token;
        s.seed = i;
        counts[pick_one(f, &s, &token)]++;
    }
    for (int32_t i = 0; i < N; i++) {
        double mean = DRAWS * expected[i], deviation = sqrt(mean * (1 - expected[i]));
        assert_true(fabs(counts[i] - mean) <= 5 * deviation + 1e-9);
    }
}

static void test_draws_follow_the_distribution(void **state)
{
    struct fixture *f = *state;
    const float logits[4] = {logf(0.1f), logf(0.4f), logf(0.2f), logf(0.3f)};
    double p[N] = {0.1, 0.4, 0.2, 0.3};
    struct engine_sampling s = neutral();
    set_row(f, logits, 4);
    assert_distribution(f, s, p);
    s.temperature = 0.5f; /* squares */
    memcpy(p, (double[]){0.01 / 0.3, 0.16 / 0.3, 0.04 / 0.3, 0.09 / 0.3}, 4 * sizeof *p);
    assert_distribution(f, s, p);
}

static void test_top_p_min_p_and_top_k_cut_where_they_should(void **state)
{
    struct fixture *f = *state;
    const float logits[4] = {logf(0.1f), logf(0.4f), logf(0.2f), logf(0.3f)};
    double p[N] = {0};
    struct engine_sampling s = neutral();
    set_row(f, logits, 4);
    p[1] = 4.0 / 7;
    p[3] = 3.0 / 7;
    s.top_p = 0.65f; /* 0.4 is not enough, 0.7 is */
    assert_distribution(f, s, p);
    s = neutral();
    s.min_p = 0.6f; /* of 0.4: 0.24 */
    assert_distribution(f, s, p);
    s = neutral();
    s.top_k = 2;
    assert_distribution(f, s, p);
    s.top_p = 0; /* still one token */
    memset(p, 0, sizeof p);
    p[1] = 1;
    assert_distribution(f, s, p);
}

/* The nucleus by its definition: everything sorted, everything in double. */
static bool in_nucleus(const struct fixture *f, int32_t id, double temperature, double top_p,
                       double min_p)
{
    double before = 0, total = 0, max = (double)f->top_logits[0];
    for (int32_t i = 0; i < N; i++) {
        double w = exp(((double)f->logits[i] - max) / temperature);
        total += w;
        if (f->logits[i] > f->logits[id] || (f->logits[i] == f->logits[id] && i < id))
            before += w;
    }
    return before < top_p * total * (1 + 1e-5) &&
           exp(((double)f->logits[id] - max) / temperature) >= min_p * (1 - 1e-5);
}

static void test_nucleus_holds_what_its_definition_says(void **state)
{
    struct fixture *f = *state;
    for (uint64_t i = 0; i < 3000; i++) {
        static const float top_ps[] = {0.1f, 0.5f, 0.9f, 0.999f}, min_ps[] = {0, 0, 1e-4f, 0.3f};
        struct engine_token token;
        struct engine_sampling s = neutral();
        s.seed = i;
        s.temperature = 0.1f + (float)(i % 30) / 5;
        s.top_p = top_ps[i % 4];
        s.min_p = min_ps[i / 4 % 4];
        make_row(f, i % 50);
        fill_candidates(f);
        pick_one(f, &s, &token);
        assert_true(
            in_nucleus(f, token.id, (double)s.temperature, (double)s.top_p, (double)s.min_p));
    }
}

/* Locally typical sampling by its definition: everything sorted by its distance from the entropy,
 * everything in double. */
static bool is_typical(const struct fixture *f, int32_t id, double temperature, double typical_p)
{
    double total = 0, entropy = 0, before = 0, distance[N], p[N], max = (double)f->top_logits[0];
    for (int32_t i = 0; i < N; i++)
        total += exp(((double)f->logits[i] - max) / temperature);
    for (int32_t i = 0; i < N; i++) {
        p[i] = exp(((double)f->logits[i] - max) / temperature) / total;
        entropy -= p[i] > 0 ? p[i] * log(p[i]) : 0;
    }
    for (int32_t i = 0; i < N; i++)
        distance[i] = p[i] > 0 ? fabs(-log(p[i]) - entropy) : INFINITY;
    for (int32_t i = 0; i < N; i++)
        if (distance[i] < distance[id] - 1e-5)
            before += p[i];
    return before < typical_p * (1 + 1e-5);
}

static void test_typical_tokens_are_what_the_definition_says(void **state)
{
    struct fixture *f = *state;
    for (uint64_t i = 0; i < 3000; i++) {
        static const float typical_ps[] = {0.05f, 0.3f, 0.9f, 0.999f};
        struct engine_token token;
        struct engine_sampling s = neutral();
        s.seed = i;
        s.temperature = 0.1f + (float)(i % 30) / 5;
        s.typical_p = typical_ps[i % 4];
        make_row(f, i % 50);
        fill_candidates(f);
        pick_one(f, &s, &token);
        assert_true(is_typical(f, token.id, (double)s.temperature, (double)s.typical_p));
    }
}

static void test_typical_cuts_the_likeliest_too(void **state)
{
    struct fixture *f = *state;
    const float logits[5] = {logf(0.4f), logf(0.15f), logf(0.15f), logf(0.15f),
                             logf(0.15f)}; /* entropy 1.50: 0.15 is 1.90, 0.4 is 0.92 */
    double p[N] = {0, 0.25, 0.25, 0.25, 0.25};
    struct engine_sampling s = neutral();
    set_row(f, logits, 5);
    s.typical_p = 0.55f;
    assert_distribution(f, s, p);
    s.top_k = 5; /* over candidates */
    assert_distribution(f, s, p);
    s.top_p = 0.4f; /* of what typical_p left */
    memcpy(p, (double[]){0, 0.5, 0.5, 0, 0}, 5 * sizeof *p);
    assert_distribution(f, s, p);
    s = neutral();
    s.typical_p = 1; /* off */
    memcpy(p, (double[]){0.4, 0.15, 0.15, 0.15, 0.15}, 5 * sizeof *p);
    assert_distribution(f, s, p);
}

static void test_weights_are_exponentials(void **state)
{
    enum { M = 1000 };
    static float logits[M], weights[M];
    double sum = 0;
    for (int32_t i = 0; i < M; i++)
        logits[i] = 20 - (float)i * 0.085f;
    logits[M - 1] = -INFINITY;
    logits[M - 2] = -1e30f;
    double total = topk_weights(logits, M, 20, 1, weights);
    for (int32_t i = 0; i < M; i++) {
        double expected = exp((double)logits[i] - 20);
        assert_true(fabs((double)weights[i] - expected) <= 1e-5 * expected + 1e-37);
        assert_true(weights[i] == topk_weight(logits[i], 20, 1));
        sum += expected;
    }
    assert_true(weights[0] == 1 && weights[M - 1] == 0 && weights[M - 2] == 0);
    assert_true(fabs(total - sum) < 1e-5 * sum);
}

static void test_best_are_in_order_with_lower_ids_first(void **state)
{
    struct fixture *f = *state;
    struct candidate best[N];
    for (uint64_t i = 0; i < 50; i++) {
        make_row(f, i);
        int32_t k = 1 + (int32_t)(i * 7) % N;
        topk_select(f->logits, N, k, best);
        for (int32_t a = 0; a < k; a++) {
            int32_t better = 0;
            for (int32_t b = 0; b < N; b++)
                better += f->logits[b] > f->logits[best[a].id] ||
                          (f->logits[b] == f->logits[best[a].id] && b < best[a].id);
            assert_int_equal(better, a);
        }
    }
}

static void test_logprobs_are_the_models_own(void **state)
{
    struct fixture *f = *state;
    struct engine_token token;
    struct engine_sampling s = neutral();
    const float logits[4] = {logf(0.1f), logf(0.4f), logf(0.2f), logf(0.3f)};
    static const struct engine_bias force = {2, 100};
    set_row(f, logits, 4);
    s.temperature = 0.3f;
    s.bias = &force;
    s.n_bias = 1;
    assert_int_equal(pick_one(f, &s, &token), 2);
    assert_true(fabsf(token.logprob - logf(0.2f)) < 1e-5f);
    assert_int_equal(token.n_top, 20);
    assert_int_equal(token.top[0].id, 1);
    assert_true(fabsf(token.top[0].logprob - logf(0.4f)) < 1e-5f);
    assert_true(token.top[10].logprob == SAMPLER_NO_LOGPROB);
}

static void assert_sane(struct fixture *f)
{
    for (int i = 0; i < 24; i++) {
        struct engine_token token;
        struct engine_sampling s = neutral();
        s.temperature = (float[]){0, 1, 1e-30f, 100}[i % 4];
        s.top_k = (int32_t[]){0, 5, 200}[i % 3];
        s.top_p = i % 2 ? 0.9f : 1;
        s.presence_penalty = i > 12 ? 1 : 0;
        s.typical_p = i % 5 ? 0 : 0.5f;
        int32_t id = pick_one(f, &s, &token);
        assert_true(id >= 0 && id < N);
        assert_true(token.logprob <= 0 && token.logprob >= SAMPLER_NO_LOGPROB);
        for (int32_t k = 0; k < token.n_top; k++)
            assert_true(token.top[k].logprob <= 0 && token.top[k].logprob >= SAMPLER_NO_LOGPROB);
    }
}

static void test_broken_rows_give_some_token_and_no_nan(void **state)
{
    struct fixture *f = *state;
    set_row(f, NULL, 0); /* all -inf */
    f->row.log_sum_exp = -INFINITY;
    assert_sane(f);
    make_row(f, 1);
    fill_candidates(f);
    f->logits[3] = NAN;
    f->row.log_sum_exp = NAN;
    assert_sane(f);
    make_row(f, 1);
    f->logits[9] = INFINITY;
    fill_candidates(f);
    assert_sane(f);
    for (int32_t i = 0; i < N; i++)
        f->logits[i] = f->top_logits[i % BACKEND_MAX_TOP] = NAN;
    assert_sane(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox_gives_the_published_numbers),
        cmocka_unit_test_setup_teardown(test_greedy_takes_the_greatest_and_lowest_id, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_candidates_and_whole_rows_give_the_same_token, setup,
                                        teardown),
        cmocka_unit_test(test_when_whole_rows_are_wanted),
        cmocka_unit_test_setup_teardown(test_draws_follow_the_distribution, setup, teardown),
        cmocka_unit_test_setup_teardown(test_top_p_min_p_and_top_k_cut_where_they_should, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_nucleus_holds_what_its_definition_says, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_typical_tokens_are_what_the_definition_says, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_typical_cuts_the_likeliest_too, setup, teardown),
        cmocka_unit_test(test_weights_are_exponentials),
        cmocka_unit_test_setup_teardown(test_best_are_in_order_with_lower_ids_first, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_logprobs_are_the_models_own, setup, teardown),
        cmocka_unit_test_setup_teardown(test_broken_rows_give_some_token_and_no_nan, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
