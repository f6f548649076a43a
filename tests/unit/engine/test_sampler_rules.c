/* Penalties, bias and token rules of the sampler: what may be drawn, and how likely. */
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

static void test_penalties_follow_their_definitions(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct engine_token token;
    struct engine_sampling s = neutral();
    const float logits[4] = {2, 1.9f, -1, 1.5f};
    static const int32_t prompt[] = {0};
    set_row(f, logits, 4);
    s.temperature = 0;
    s.repetition_penalty = 2; /* prompt token 0: 2 becomes 1 */
    struct sampler *sampler = sampler_create(&s, N, &e);
    sampler_add_prompt(sampler, prompt, 1);
    pick(f, sampler, &f->row, -1, &token);
    assert_int_equal(token.id, 1); /* now 1.9 becomes 0.95 */
    pick(f, sampler, &f->row, -1, &token);
    assert_int_equal(token.id, 3); /* and 1.5 becomes 0.75: left are 1, 0.95, 0.75 */
    pick(f, sampler, &f->row, -1, &token);
    assert_int_equal(token.id, 0);
    sampler_destroy(&sampler);

    s = neutral();
    s.temperature = 0;
    s.frequency_penalty = 0.3f; /* counts the answer only, each time */
    sampler = sampler_create(&s, N, &e);
    sampler_add_prompt(sampler, prompt, 1);
    static const int32_t expected[] = {0, 1, 0, 1, 3};
    for (int i = 0; i < 5; i++) {
        pick(f, sampler, &f->row, -1, &token);
        assert_int_equal(token.id, expected[i]);
    }
    sampler_destroy(&sampler);
}

static void test_a_window_forgets(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct engine_token token;
    struct engine_sampling s = neutral();
    const float logits[4] = {2, 1.9f, 1.8f, 0};
    static const int32_t prompt[] = {1, 0};
    set_row(f, logits, 4);
    s.temperature = 0;
    s.repetition_penalty = 2;
    s.presence_penalty = 0.1f; /* of the answer's tokens only */
    s.penalty_window = 1;
    struct sampler *sampler = sampler_create(&s, N, &e);
    sampler_add_prompt(sampler, prompt, 2);
    for (int i = 0; i < 6; i++) { /* the likeliest but the last one */
        pick(f, sampler, &f->row, -1, &token);
        assert_int_equal(token.id, (i + 1) % 2);
    }
    sampler_destroy(&sampler);
}

/* Greedy; each pick is told to the rules. */
static void pick_under(struct fixture *f, const struct engine_job_params *p,
                       const int32_t *expected, int n)
{
    static const int32_t eos[] = {0};
    struct err e = {0};
    struct token_rules rules;
    struct engine_sampling s = neutral();
    int32_t answer[8];
    s.temperature = 0;
    s.top_k = 20;
    assert_true(token_rules_init(
        &rules, p, &(struct token_rules_vocab){.eos = eos, .n_eos = 1, .n_vocab = N}, &e));
    struct sampler *sampler = sampler_create(&s, N, &e);
    sampler_set_rules(sampler, &rules);
    for (int i = 0; i < n; i++) {
        struct engine_token token;
        struct step_row row = f->row;
        token_rules_set_answer(&rules, answer, i);
        if (!sampler_wants_logits(sampler))
            row.logits = NULL;
        pick(f, sampler, &row, -1, &token);
        answer[i] = token.id;
        assert_int_equal(token.id, expected[i]);
    }
    sampler_destroy(&sampler);
    token_rules_fini(&rules);
}

static void test_rules_forbid_tokens(void **state)
{
    struct fixture *f = *state;
    const float logits[5] = {5, 4, 3, 2, 1};
    static const int32_t stop[] = {1}, allowed[] = {3, 2}, banned[] = {1, 1, 2, 2, 2, 3, 2, 3, 2},
                         eos_only[] = {0};
    set_row(f, logits, 5);
    pick_under(f, &(struct engine_job_params){0}, (const int32_t[]){0, 0}, 2);
    /* nothing that ends it before two tokens */
    pick_under(f, &(struct engine_job_params){.min_tokens = 2, .stop_ids = stop, .n_stop_ids = 1},
               (const int32_t[]){2, 2, 0}, 3);
    pick_under(f, &(struct engine_job_params){.min_tokens = 2, .ignore_eos = true},
               (const int32_t[]){0, 0, 0}, 3);
    pick_under(f, &(struct engine_job_params){.allowed_ids = allowed, .n_allowed_ids = 2},
               (const int32_t[]){2, 2}, 2);
    /* 1; 2 2; 2 3 2 */
    pick_under(f,
               &(struct engine_job_params){.ignore_eos = true,
                                           .min_tokens = 9,
                                           .allowed_ids = (const int32_t[]){1, 2, 3, 4},
                                           .n_allowed_ids = 4,
                                           .banned = banned,
                                           .n_banned = 9},
               (const int32_t[]){2, 3, 3, 2, 3}, 5);
    /* what is allowed is drawn even where nothing else would be */
    pick_under(
        f,
        &(struct engine_job_params){.allowed_ids = eos_only, .n_allowed_ids = 1, .min_tokens = 2},
        (const int32_t[]){0}, 1);
    pick_under(
        f, &(struct engine_job_params){.allowed_ids = (const int32_t[]){250}, .n_allowed_ids = 1},
        (const int32_t[]){250}, 1);
}

static void test_rules_stay_in_the_vocabulary(void **state)
{
    static const int32_t outside[] = {1, N};
    static const struct engine_job_params bad[] = {{.stop_ids = outside, .n_stop_ids = 2},
                                                   {.allowed_ids = outside, .n_allowed_ids = 2},
                                                   {.banned = outside, .n_banned = 2}};
    static const char *const fields[] = {"stop_token_ids", "allowed_token_ids", "bad_words"};
    for (int i = 0; i < 3; i++) {
        struct err e = {0};
        struct token_rules rules;
        assert_false(
            token_rules_init(&rules, &bad[i], &(struct token_rules_vocab){.n_vocab = N}, &e));
        assert_string_equal(e.field, fields[i]);
        token_rules_fini(&rules);
    }
}

static void test_bias_forbids_and_forces(void **state)
{
    struct fixture *f = *state;
    struct engine_token token;
    struct engine_sampling s = neutral();
    const struct engine_bias bias[] = {{1, -100}, {250, 100}};
    make_row(f, 3);
    fill_candidates(f);
    s.bias = bias;
    s.n_bias = 2;
    assert_int_equal(pick_one(f, &s, &token), 250);
    struct err e = {0};
    s.bias = &(struct engine_bias){N, 1};
    s.n_bias = 1;
    assert_null(sampler_create(&s, N, &e));
    assert_int_equal(e.code, ERR_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_penalties_follow_their_definitions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_window_forgets, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rules_forbid_tokens, setup, teardown),
        cmocka_unit_test(test_rules_stay_in_the_vocabulary),
        cmocka_unit_test_setup_teardown(test_bias_forbids_and_forces, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
