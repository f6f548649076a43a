/* Routing traces: what each kind promises about reuse and caches, measured on the trace itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fcgi/cli/bench/routing.h"

#define LAYERS 6
#define TOKENS 1200
#define COLD 200 /* tokens that are not counted */
#define MAX_EXPERTS 512
#define MAX_USED 10

static struct layer_plan layers[LAYERS];
static struct model_plan plan = {.n_layer = LAYERS, .layers = layers};
static struct err e;

static struct routing *make(enum routing_kind kind, int32_t n_expert, int32_t n_used,
                            int32_t n_sequences)
{
    for (int i = 0; i < LAYERS; i++)
        layers[i] =
            (struct layer_plan){.ffn = FFN_MOE, .moe = {.n_expert = n_expert, .n_used = n_used}};
    struct routing_params p = {
        .plan = &plan, .kind = kind, .seed = 1, .n_sequences = n_sequences, .n_positions = TOKENS};
    struct routing *r = routing_create(&p, &e);
    assert_non_null(r);
    return r;
}

/* Hit rate of a least-recently-used cache of n experts in each layer, over the tokens from `cold`
 * to `end`. */
static double lru(struct routing *r, int32_t n, int32_t cold, int32_t end)
{
    int64_t hits = 0, all = 0;
    for (int32_t layer = 0; layer < LAYERS; layer++) {
        int64_t last[MAX_EXPERTS]; /* when each expert was used; -1: never */
        int32_t ids[MAX_USED], n_expert = layers[layer].moe.n_expert,
                               used = layers[layer].moe.n_used;
        for (int32_t i = 0; i < n_expert; i++)
            last[i] = -1;
        for (int64_t t = 0; t < end; t++) {
            int64_t before[MAX_EXPERTS];
            memcpy(before, last, sizeof before);
            routing_route(r, layer, 0, (int32_t)t, ids);
            for (int32_t i = 0; i < used; i++) {
                int32_t newer =
                    0; /* experts used after it: it is there when they are fewer than n */
                for (int32_t k = 0; k < n_expert; k++)
                    newer += before[k] > before[ids[i]];
                hits += t >= cold && before[ids[i]] >= 0 && newer < n;
                all += t >= cold;
                last[ids[i]] = t * MAX_USED + i;
            }
        }
    }
    return (double)hits / (double)all;
}

static void expect_near(double got, double want, double within, const char *what, int n)
{
    if (fabs(got - want) > within)
        fail_msg("%s %d: %.3f, want %.3f within %.3f", what, n, got, want, within);
}

static void test_calibrated_traces_hit_as_documented(void **state)
{
    static const struct {
        int32_t n_expert, n_used, n;
        double hit;
    } rows[] = {{128, 8, 8, .46},   {128, 8, 24, .76},  {128, 8, 49, .85},  {128, 8, 81, .93},
                {256, 8, 16, .65},  {256, 8, 32, .79},  {256, 8, 64, .85},  {256, 8, 96, .88},
                {256, 8, 128, .92}, {512, 10, 64, .75}, {512, 10, 128, .81}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct routing *r = make(ROUTING_CALIBRATED, rows[i].n_expert, rows[i].n_used, 1);
        expect_near(lru(r, rows[i].n, COLD, TOKENS), rows[i].hit, 0.02, "hit rate of", rows[i].n);
        routing_destroy(&r);
    }
}

/* Experts that n tokens in a row use, over those of one. */
static double growth(struct routing *r, int32_t n)
{
    int32_t ids[MAX_USED], used = layers[0].moe.n_used, seen = 0, rounds = 0;
    for (int32_t first = 0; first + n <= TOKENS; first += 7, rounds++) {
        bool in[MAX_EXPERTS] = {false};
        for (int32_t t = first; t < first + n; t++) {
            routing_route(r, 0, 0, t, ids);
            for (int32_t i = 0; i < used; i++) {
                seen += !in[ids[i]];
                in[ids[i]] = true;
            }
        }
    }
    return (double)seen / rounds / used;
}

static void test_unions_grow_as_documented(void **state)
{
    static const double calibrated[] = {1.5, 2.3, 3.3, 4.8}, iid[] = {1.9, 3.6, 6.5, 10.3};
    struct routing *c = make(ROUTING_CALIBRATED, 128, 8, 1), *u = make(ROUTING_IID, 128, 8, 1);
    for (int i = 0; i < 4; i++) {
        expect_near(growth(c, 2 << i), calibrated[i], 0.2, "calibrated union of", 2 << i);
        expect_near(growth(u, 2 << i), iid[i], 0.2, "iid union of", 2 << i);
    }
    /* a cache of n of 128 can't do better than n / 128 without anything to remember */
    expect_near(lru(u, 24, COLD, TOKENS), 24 / 128.0, 0.02, "iid hit rate of", 24);
    routing_destroy(&c);
    routing_destroy(&u);
}

/* Over the 20 tokens after each change. */
static void test_a_new_subject_costs_hits(void **state)
{
    struct routing *c = make(ROUTING_CALIBRATED, 256, 8, 1), *s = make(ROUTING_SWITCH, 256, 8, 1);
    double steady = 0, changing = 0;
    int turns = TOKENS / ROUTING_SWITCH_TOKENS - 1;
    for (int i = 1; i <= turns; i++) {
        steady += lru(c, 128, i * ROUTING_SWITCH_TOKENS, i * ROUTING_SWITCH_TOKENS + 20) / turns;
        changing += lru(s, 128, i * ROUTING_SWITCH_TOKENS, i * ROUTING_SWITCH_TOKENS + 20) / turns;
    }
    if (changing > steady - 0.02)
        fail_msg("hit rate %.3f after a change, %.3f without", changing, steady);
    assert_true(
        fabs(lru(s, 128, 0, ROUTING_SWITCH_TOKENS) - lru(c, 128, 0, ROUTING_SWITCH_TOKENS)) < 1e-9);
    routing_destroy(&c);
    routing_destroy(&s);
}

static bool equal(struct routing *a, int32_t i, struct routing *b, int32_t j)
{
    int32_t x[MAX_USED], y[MAX_USED];
    for (int32_t t = 0; t < TOKENS; t++) {
        routing_route(a, 3, i, t, x);
        routing_route(b, 3, j, t, y);
        if (memcmp(x, y, (size_t)layers[3].moe.n_used * sizeof *x))
            return false;
    }
    return true;
}

static void test_ids_are_distinct_and_repeat_by_seed(void **state)
{
    for (enum routing_kind kind = ROUTING_IID; kind <= ROUTING_SWITCH; kind++) {
        struct routing *a = make(kind, 16, 8, 3), *b = make(kind, 16, 8, 3);
        for (int32_t t = 0; t < TOKENS; t++) {
            int32_t ids[MAX_USED];
            routing_route(a, 2, 1, t, ids);
            for (int32_t i = 0; i < 8; i++) {
                assert_in_range(ids[i], 0, 15);
                for (int32_t k = 0; k < i; k++)
                    assert_int_not_equal(ids[i], ids[k]);
            }
        }
        assert_true(equal(a, 0, b, 0));
        assert_false(equal(a, 0, b, 1));
        routing_first(b, 2);
        assert_true(equal(a, 2, b, 0));
        routing_first(b, 0);
        routing_renew(b, 1);
        assert_false(equal(a, 0, b, 0));
        routing_renew(b, 0);
        assert_true(equal(a, 0, b, 0));
        routing_destroy(&a);
        routing_destroy(&b);
    }
}

static void test_long_runs_start_the_trace_anew(void **state)
{
    struct routing *r = make(ROUTING_CALIBRATED, 128, 8, 1);
    int32_t x[MAX_USED], y[MAX_USED];
    routing_route(r, 0, 0, 5, x);
    routing_route(r, 0, 0, TOKENS + 5, y);
    assert_memory_equal(x, y, 8 * sizeof *x);
    routing_destroy(&r);
}

static void test_a_held_trace_stays_where_it_is(void **state)
{
    struct routing *r = make(ROUTING_IID, 128, 8, 2);
    int32_t want[MAX_USED], x[MAX_USED];
    routing_route(r, 1, 1, 9, want);
    routing_hold(r, 9);
    for (int32_t t = 0; t < 20; t++) {
        routing_route(r, 1, 1, t, x);
        assert_memory_equal(x, want, 8 * sizeof *x);
    }
    routing_hold(r, -1);
    routing_route(r, 1, 1, 10, x);
    assert_memory_not_equal(x, want, 8 * sizeof *x);
    routing_destroy(&r);
}

static void test_guesses_are_right_as_often_as_asked(void **state)
{
    for (int i = 0; i < LAYERS; i++)
        layers[i] = (struct layer_plan){.ffn = FFN_MOE, .moe = {.n_expert = 128, .n_used = 8}};
    struct routing_params p = {.plan = &plan,
                               .kind = ROUTING_CALIBRATED,
                               .seed = 1,
                               .guess = 0.78,
                               .n_sequences = 1,
                               .n_positions = TOKENS};
    struct routing *r = routing_create(&p, &e);
    int32_t want[MAX_USED], got[MAX_USED], right = 0, first = 0, last = 0;
    for (int32_t t = 0; t < TOKENS; t++) {
        routing_route(r, 2, 0, t, want);
        routing_guess(r, 2, 0, t, got);
        first += got[0] == want[0];
        last += got[7] == want[7];
        for (int i = 0; i < 8; i++) {
            for (int k = 0; k < 8; k++)
                right += got[i] == want[k];
            for (int k = 0; k < i; k++)
                assert_int_not_equal(got[k], got[i]);
            assert_in_range(got[i], 0, 127);
        }
    }
    expect_near((double)right / (8.0 * TOKENS), 0.78, 0.01, "right guesses of", 8 * TOKENS);
    expect_near((double)first / TOKENS, 0.98, 0.01, "right first guesses of", TOKENS);
    expect_near((double)last / TOKENS, 0.58, 0.02, "right last guesses of", TOKENS);
    routing_destroy(&r);
}

static void test_a_dense_model_has_no_trace(void **state)
{
    struct layer_plan dense = {.ffn = FFN_DENSE};
    struct model_plan p = {.n_layer = 1, .layers = &dense};
    assert_null(routing_create(
        &(struct routing_params){
            .plan = &p, .kind = ROUTING_IID, .n_sequences = 1, .n_positions = 8},
        &e));
    assert_int_equal(e.code, ERR_INPUT);
    assert_int_equal(routing_kind_of("switch"), ROUTING_SWITCH);
    assert_int_equal(routing_kind_of("model"), ROUTING_MODEL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calibrated_traces_hit_as_documented),
        cmocka_unit_test(test_unions_grow_as_documented),
        cmocka_unit_test(test_a_new_subject_costs_hits),
        cmocka_unit_test(test_ids_are_distinct_and_repeat_by_seed),
        cmocka_unit_test(test_long_runs_start_the_trace_anew),
        cmocka_unit_test(test_a_held_trace_stays_where_it_is),
        cmocka_unit_test(test_guesses_are_right_as_often_as_asked),
        cmocka_unit_test(test_a_dense_model_has_no_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
