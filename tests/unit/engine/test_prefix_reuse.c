/* What is computed once is found again: prefixes, replies, and recurrent states beside them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "tests/unit/support/fake_backend.h"
#include "tests/unit/support/scheduler_rig.h"

static int32_t cached_of(struct rig *r, const int32_t *prompt, int32_t n, const char *scope)
{
    struct engine_job_params p = params_of(prompt, n, 5);
    struct outcome o;
    strcpy(p.scope, scope);
    struct job *j = add(r, &p);
    run(r);
    assert_greedy(j);
    read_log(j, &o);
    buf_fini(&o.text);
    job_unref(&j);
    return o.usage.cached_tokens;
}

static void test_prefix_is_found_again_within_its_scope(void **state)
{
    int32_t prompt[96];
    struct rig r;
    fill_prompt(prompt, 96, 4);
    rig_init(&r, 2, 64, 64);
    assert_int_equal(cached_of(&r, prompt, 96, "a"), 0);
    assert_int_equal(cached_of(&r, prompt, 96, "a"), 64); /* the last token is always computed */
    assert_int_equal(cached_of(&r, prompt, 95, "a"), 64);
    assert_int_equal(cached_of(&r, prompt, 64, "a"), 32);
    assert_int_equal(cached_of(&r, prompt, 96, "b"), 0);
    prompt[40]++; /* the second block differs */
    assert_int_equal(cached_of(&r, prompt, 96, "a"), 32);
    assert_all_returned(&r, 2);
    rig_fini(&r);
}

static struct engine_usage usage_with(struct rig *r, const int32_t *prompt, int32_t n,
                                      int32_t experts)
{
    struct engine_job_params p = params_of(prompt, n, 5);
    struct outcome o;
    p.experts_per_token = experts;
    struct job *j = add(r, &p);
    run(r);
    assert_greedy(j);
    read_log(j, &o);
    buf_fini(&o.text);
    job_unref(&j);
    return o.usage;
}

/* The backend refuses to go on from KV that was made with another number of experts. */
static void test_fewer_experts_have_kv_of_their_own_and_say_so(void **state)
{
    int32_t prompt[96];
    struct rig r;
    fill_prompt(prompt, 96, 4);
    rig_init(&r, 2, 64, 64);
    struct engine_usage u = usage_with(&r, prompt, 96, 0);
    assert_int_equal(u.reduced_top_k, 0);
    u = usage_with(&r, prompt, 96, 2);
    assert_int_equal(u.cached_tokens, 0);
    assert_int_equal(u.reduced_top_k, 2);
    assert_int_equal(u.trained_top_k, RIG_EXPERTS);
    assert_int_equal(usage_with(&r, prompt, 96, 2).cached_tokens, 64);
    assert_int_equal(usage_with(&r, prompt, 96, 1).cached_tokens, 0);
    u = usage_with(&r, prompt, 96,
                   RIG_EXPERTS); /* as many as there are: nothing is lost, and all is shared */
    assert_int_equal(u.cached_tokens, 64);
    assert_int_equal(u.reduced_top_k, 0);
    assert_all_returned(&r, 2);
    rig_fini(&r);
}

static void test_replies_are_cached_too(void **state)
{
    int32_t prompt[N_CTX];
    struct outcome o;
    struct rig r;
    rig_init(&r, 2, 64, 64);
    fill_prompt(prompt, 20, 4);
    struct engine_job_params p = params_of(prompt, 20, 100);
    p.ignore_eos = true;
    struct job *j = add(&r, &p);
    run(&r);
    read_log(j, &o);
    assert_int_equal(o.n, 100);
    memcpy(prompt + 20, o.ids, 100 * sizeof *prompt);
    fill_prompt(prompt + 120, 10, 5);
    /* 119 tokens were computed (the last one only sampled): 3 whole blocks */
    assert_int_equal(cached_of(&r, prompt, 130, ""), 96);
    buf_fini(&o.text);
    job_unref(&j);
    rig_fini(&r);
}

static void test_no_tokens_wanted_reads_the_prompt_only(void **state)
{
    int32_t prompt[N_CTX];
    struct outcome o;
    struct rig r;
    rig_init(&r, 1, 64, 64);
    fill_prompt(prompt, N_CTX, 1);
    struct engine_job_params p = params_of(prompt, N_CTX, 0); /* the whole context */
    struct job *j = add(&r, &p);
    run(&r);
    read_log(j, &o);
    assert_true(o.done && o.finish == ENGINE_LENGTH && o.n == 0);
    assert_int_equal(o.usage.completion_tokens, 0);
    assert_true(o.n_progress >= N_CTX / 64);
    job_unref(&j);
    assert_int_equal(cached_of(&r, prompt, 200, ""), 192); /* which is what it was for */
    rig_fini(&r);
}

static void test_recurrent_prefix_goes_on_from_a_checkpoint(void **state)
{
    int32_t prompt[N_CTX];
    struct outcome o;
    struct rig r;
    rig_init_recurrent(&r, 2, 64, 64, 8);
    fill_prompt(prompt, 200, 4);
    assert_int_equal(cached_of(&r, prompt, 100, ""), 0); /* copies its state at 96 */
    assert_int_equal(cached_of(&r, prompt, 100, ""), 96);
    assert_int_equal(cached_of(&r, prompt, 96, ""), 0); /* 64 are known, but no state behind them */
    assert_int_equal(cached_of(&r, prompt, 96, ""),
                     64); /* now there is: where that job's prompt ended */
    assert_int_equal(cached_of(&r, prompt, 200, ""), 96);
    struct engine_job_params p = params_of(prompt, 200, 100);
    p.ignore_eos = true;
    struct job *j = add(&r, &p);
    run(&r);
    read_log(j, &o);
    memcpy(prompt + 200, o.ids, 100 * sizeof *prompt);
    fill_prompt(prompt + 300, 40, 5);
    assert_int_equal(cached_of(&r, prompt, 340, ""), 288); /* the answer's last whole block */
    buf_fini(&o.text);
    job_unref(&j);
    assert_all_returned(&r, 2);
    rig_fini(&r);
}

static void test_recurrent_branch_gets_a_checkpoint_for_the_next(void **state)
{
    int32_t prompt[200];
    struct rig r;
    rig_init_recurrent(&r, 2, 64, 64, 16);
    for (unsigned i = 0; i < 4; i++) {
        static const int32_t expected[] = {
            0, 0, 96, 96}; /* the second finds where they part, the third profits */
        fill_prompt(prompt, 100, 4);
        fill_prompt(prompt + 100, 100, 50 + i);
        assert_int_equal(cached_of(&r, prompt, 200, ""), expected[i]);
    }
    rig_fini(&r);
}

static void test_recurrent_jobs_answer_as_if_alone(void **state)
{
    enum { N = 120 };
    int32_t prompt[200];
    struct job *jobs[N];
    unsigned seed = 5;
    for (int32_t n_checkpoints = 0; n_checkpoints <= 6;
         n_checkpoints += 3) { /* none: no reuse; few: they are fought for */
        struct rig r;
        int cached = 0;
        rig_init_recurrent(&r, 6, 24, 64, n_checkpoints);
        for (int i = 0; i < N; i++) {
            seed = seed * 1103515245u + 12345;
            int32_t n = 1 + (int32_t)(seed >> 16) % 200;
            fill_prompt(prompt, n, (unsigned)i % 3);
            struct engine_job_params p = params_of(prompt, n, 1 + (int32_t)(seed >> 20) % 90);
            jobs[i] = add(&r, &p);
        }
        run(&r);
        for (int i = 0; i < N; i++) {
            assert_greedy(jobs[i]);
            cached += jobs[i]->n_cached;
            job_unref(&jobs[i]);
        }
        assert_int_equal(cached > 0, n_checkpoints > 0);
        assert_all_returned(&r, 6);
        rig_fini(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefix_is_found_again_within_its_scope),
        cmocka_unit_test(test_fewer_experts_have_kv_of_their_own_and_say_so),
        cmocka_unit_test(test_replies_are_cached_too),
        cmocka_unit_test(test_no_tokens_wanted_reads_the_prompt_only),
        cmocka_unit_test(test_recurrent_prefix_goes_on_from_a_checkpoint),
        cmocka_unit_test(test_recurrent_branch_gets_a_checkpoint_for_the_next),
        cmocka_unit_test(test_recurrent_jobs_answer_as_if_alone),
    };
    return cmocka_run_group_tests(tests, rig_load_vocab, rig_unload_vocab);
}
