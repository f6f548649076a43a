/* Scheduling over the fake backend: answers must be those that each job gives alone, whatever runs
 * beside it, and everything that was taken must come back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/support/fake_backend.h"
#include "tests/unit/support/scheduler_rig.h"

static void test_one_job_gives_its_answer(void **state)
{
    int32_t prompt[100];
    struct rig r;
    rig_init(&r, 4, 64, 64);
    for (int n = 1; n <= 100; n += 11) {
        fill_prompt(prompt, n, (unsigned)n);
        struct engine_job_params p = params_of(prompt, n, 40);
        struct job *j = add(&r, &p);
        run(&r);
        assert_greedy(j);
        job_unref(&j);
    }
    assert_all_returned(&r, 4);
    rig_fini(&r);
}

static void test_many_jobs_answer_as_if_alone(void **state)
{
    enum { N = 64 };
    int32_t prompt[200];
    struct job *jobs[N];
    struct rig r;
    rig_init(&r, 16, 512, 64);
    for (int i = 0; i < N; i++) {
        int32_t n = 1 + i * 37 % 200;
        fill_prompt(prompt, n, (unsigned)(i % 7)); /* beginnings are shared */
        struct engine_job_params p = params_of(prompt, n, 1 + i * 13 % 90);
        p.user = (uint64_t)(i % 5);
        jobs[i] = add(&r, &p);
    }
    run(&r);
    for (int i = 0; i < N; i++) {
        assert_greedy(jobs[i]);
        job_unref(&jobs[i]);
    }
    assert_all_returned(&r, 16);
    rig_fini(&r);
}

static void test_too_few_blocks_pause_but_never_change_answers(void **state)
{
    enum { N = 24 };
    int32_t prompt[64];
    struct job *jobs[N];
    struct rig r;
    rig_init(&r, 8, 17,
             64); /* one context needs 16: eight jobs of up to 7 blocks cannot all stay */
    for (int i = 0; i < N; i++) {
        int32_t n = 1 + i * 29 % 64;
        fill_prompt(prompt, n, (unsigned)i);
        struct engine_job_params p = params_of(prompt, n, 150);
        p.ignore_eos = true;
        jobs[i] = add(&r, &p);
    }
    run(&r);
    assert_true(scheduler_counts(r.scheduler).preempted > 0);
    for (int i = 0; i < N; i++) {
        struct outcome o;
        int32_t history[N_CTX], n = jobs[i]->params.n_prompt;
        read_log(jobs[i], &o);
        assert_true(o.done && o.finish == ENGINE_LENGTH);
        assert_int_equal(o.n, 150);
        memcpy(history, jobs[i]->params.prompt, (size_t)n * sizeof *history);
        for (int32_t k = 0; k < 150; k++) {
            assert_int_equal(o.ids[k], fake_greedy(history, n + k));
            history[n + k] = o.ids[k];
        }
        buf_fini(&o.text);
        job_unref(&jobs[i]);
    }
    assert_all_returned(&r, 8);
    rig_fini(&r);
}

static struct engine_job_params sampled_params(const int32_t *prompt, int32_t n, uint64_t seed)
{
    struct engine_job_params p = params_of(prompt, n, 60);
    p.ignore_eos = true;
    p.sampling.temperature = 0.9f;
    p.sampling.top_k = seed % 2 ? 20 : 0;
    p.sampling.top_p = 0.9f;
    p.sampling.presence_penalty = seed % 3 ? 0 : 0.5f;
    p.sampling.seed = seed;
    return p;
}

static void test_seeded_answers_do_not_depend_on_company(void **state)
{
    enum { N = 12 };
    int32_t prompt[50];
    struct outcome alone[N], together;
    struct job *jobs[N];
    struct rig r;
    fill_prompt(prompt, 50, 9);
    for (int i = 0; i < N; i++) {
        rig_init(&r, 1, 32, 64);
        struct engine_job_params p = sampled_params(prompt, 50, (uint64_t)i);
        struct job *j = add(&r, &p);
        run(&r);
        read_log(j, &alone[i]);
        job_unref(&j);
        rig_fini(&r);
    }
    rig_init(&r, 8, 17, 32); /* with pauses */
    for (int i = 0; i < N; i++) {
        struct engine_job_params p = sampled_params(prompt, 50, (uint64_t)i);
        jobs[i] = add(&r, &p);
    }
    run(&r);
    assert_true(scheduler_counts(r.scheduler).preempted > 0);
    for (int i = 0; i < N; i++) {
        read_log(jobs[i], &together);
        assert_int_equal(together.n, 60);
        assert_memory_equal(together.ids, alone[i].ids, 60 * sizeof *together.ids);
        buf_fini(&together.text);
        buf_fini(&alone[i].text);
        job_unref(&jobs[i]);
    }
    assert_memory_not_equal(alone[1].ids, alone[5].ids, 60 * sizeof *alone->ids); /* seeds matter */
    rig_fini(&r);
}

static void test_answers_go_on_beside_a_long_prompt(void **state)
{
    int32_t prompt[400];
    struct outcome o;
    struct err e = {0};
    struct rig r;
    rig_init(&r, 4, 64, 64);
    fill_prompt(prompt, 400, 4);
    struct engine_job_params p = params_of(prompt, 3, 200);
    p.ignore_eos = true;
    struct job *answer = add(&r, &p);
    scheduler_step(r.scheduler, &e);
    struct engine_job_params longer = params_of(prompt, 400, 1);
    struct job *reader = add(&r, &longer);
    int steps = 0;
    while (reader->state != JOB_OVER) {
        scheduler_step(r.scheduler, &e);
        steps++;
        assert_true(fake_last_rows(r.backend) <= 1 + 64);
    }
    read_log(answer, &o);
    assert_true(steps >= 400 / 64);
    assert_int_equal(o.n, steps + 1); /* one token in each step */
    buf_fini(&o.text);
    scheduler_cancel_all(r.scheduler);
    run(&r);
    job_unref(&answer);
    job_unref(&reader);
    assert_all_returned(&r, 4);
    rig_fini(&r);
}

static void test_prompts_of_several_jobs_share_a_step(void **state)
{
    int32_t prompt[20];
    struct err e = {0};
    struct rig r;
    struct job *jobs[3];
    rig_init(&r, 4, 64, 64);
    for (int i = 0; i < 3; i++) {
        fill_prompt(prompt, 20, (unsigned)i);
        struct engine_job_params p = params_of(prompt, 20, 5);
        jobs[i] = add(&r, &p);
    }
    scheduler_step(r.scheduler, &e);
    assert_int_equal(fake_last_sequences(r.backend), 3);
    assert_int_equal(fake_last_rows(r.backend), 60);
    run(&r);
    for (int i = 0; i < 3; i++) {
        assert_greedy(jobs[i]);
        job_unref(&jobs[i]);
    }
    rig_fini(&r);
}

static void test_users_take_turns(void **state)
{
    enum { N = 10 };
    int32_t prompt[60];
    struct job *greedy[N];
    struct err e = {0};
    struct rig r;
    rig_init(&r, 1, 64, 64);
    fill_prompt(prompt, 60, 1);
    struct engine_job_params p = params_of(prompt, 60, 20);
    p.ignore_eos = true;
    p.user = 1;
    for (int i = 0; i < N; i++)
        greedy[i] = add(&r, &p);
    for (int i = 0; i < 3; i++)
        scheduler_step(r.scheduler, &e);
    p.user = 2; /* comes last, and is next */
    struct job *modest = add(&r, &p);
    while (modest->state != JOB_OVER)
        scheduler_step(r.scheduler, &e);
    assert_int_equal(greedy[0]->state, JOB_OVER);
    for (int i = 2; i < N; i++)
        assert_int_equal(greedy[i]->state, JOB_WAITING);
    run(&r);
    for (int i = 0; i < N; i++)
        job_unref(&greedy[i]);
    job_unref(&modest);
    assert_all_returned(&r, 1);
    rig_fini(&r);
}

static void test_equal_users_get_equal_shares(void **state)
{
    enum { N = 8 };
    int32_t prompt[60];
    struct job *jobs[3][N];
    struct err e = {0};
    struct rig r;
    rig_init(&r, 1, 64, 64);
    fill_prompt(prompt, 60, 1);
    struct engine_job_params p = params_of(prompt, 60, 20);
    p.ignore_eos = true;
    for (int u = 0; u < 3; u++)
        for (int i = 0; i < N; i++) {
            p.user = 7 + (uint64_t)u;
            jobs[u][i] = add(&r, &p);
        }
    while (!scheduler_idle(r.scheduler)) {
        int done[3] = {0};
        assert_true(scheduler_step(r.scheduler, &e));
        for (int u = 0; u < 3; u++)
            for (int i = 0; i < N; i++)
                done[u] += jobs[u][i]->state == JOB_OVER;
        for (int u = 1; u < 3; u++)
            assert_true(abs(done[u] - done[0]) <= 1);
    }
    for (int u = 0; u < 3; u++)
        for (int i = 0; i < N; i++)
            job_unref(&jobs[u][i]);
    assert_all_returned(&r, 1);
    rig_fini(&r);
}

static void test_background_gives_way(void **state)
{
    int32_t prompt[60];
    struct err e = {0};
    struct rig r;
    rig_init(&r, 1, 64, 64);
    fill_prompt(prompt, 60, 1);
    struct engine_job_params p = params_of(prompt, 60, 50);
    p.ignore_eos = true;
    p.priority = 1;
    struct job *background = add(&r, &p);
    for (int i = 0; i < 5; i++)
        scheduler_step(r.scheduler, &e);
    assert_int_equal(background->state, JOB_DECODE);
    int32_t before = background->n_generated;
    p.priority = 0;
    struct job *normal = add(&r, &p);
    while (normal->state != JOB_OVER)
        scheduler_step(r.scheduler, &e);
    assert_int_equal(background->n_generated, before);
    run(&r);
    struct outcome a, b;
    read_log(background, &a);
    read_log(normal, &b);
    assert_int_equal(a.n, 50);
    assert_memory_equal(a.ids, b.ids, 50 * sizeof *a.ids);
    buf_fini(&a.text);
    buf_fini(&b.text);
    job_unref(&background);
    job_unref(&normal);
    assert_all_returned(&r, 1);
    rig_fini(&r);
}

static void test_random_cancellations_leave_nothing_behind(void **state)
{
    enum { N = 300 };
    int32_t prompt[150];
    struct job *jobs[N] = {0};
    struct err e = {0};
    unsigned seed = 1;
    int n = 0;
    struct rig r;
    rig_init(&r, 6, 20, 32);
    while (n < N || !scheduler_idle(r.scheduler)) {
        seed = seed * 1103515245u + 12345;
        unsigned dice = seed >> 16;
        if (n < N && dice % 2) {
            int32_t length = 1 + (int32_t)(dice % 150);
            fill_prompt(prompt, length, dice % 3);
            struct engine_job_params p = params_of(prompt, length, (int32_t)(dice / 7 % 100));
            p.user = dice % 4;
            p.priority = dice % 11 == 0;
            jobs[n++] = add(&r, &p);
        }
        if (n && dice % 3 == 0)
            atomic_store(&jobs[dice % (unsigned)n]->cancel, true);
        assert_true(scheduler_step(r.scheduler, &e));
    }
    int cancelled = 0;
    for (int i = 0; i < n; i++) {
        struct outcome o;
        read_log(jobs[i], &o);
        assert_true(o.done);
        cancelled += o.finish == ENGINE_CANCELLED;
        if (o.finish != ENGINE_CANCELLED && jobs[i]->params.max_tokens > 0)
            assert_greedy(jobs[i]);
        buf_fini(&o.text);
        job_unref(&jobs[i]);
    }
    assert_true(cancelled > 20 && cancelled < n);
    assert_all_returned(&r, 6);
    rig_fini(&r);
}

static void test_lost_device_fails_every_job(void **state)
{
    int32_t prompt[10];
    struct job *jobs[6];
    struct err e = {0};
    struct rig r;
    rig_init(&r, 2, 64, 64);
    fake_set_faults(r.backend, (struct fake_faults){.at_step = 3, .code = ERR_DEVICE});
    fill_prompt(prompt, 10, 1);
    struct engine_job_params p = params_of(prompt, 10, 50);
    p.ignore_eos = true;
    for (int i = 0; i < 6; i++)
        jobs[i] = add(&r, &p);
    assert_true(scheduler_step(r.scheduler, &e));
    assert_true(scheduler_step(r.scheduler, &e));
    assert_false(scheduler_step(r.scheduler, &e));
    assert_int_equal(e.code, ERR_DEVICE);
    for (int i = 0; i < 6; i++) {
        struct outcome o;
        read_log(jobs[i], &o);
        assert_true(o.failed && o.error.code == ERR_DEVICE);
        buf_fini(&o.text);
        job_unref(&jobs[i]);
    }
    assert_all_returned(&r, 2);
    rig_fini(&r);
}

static void test_failed_step_ends_only_its_jobs(void **state)
{
    int32_t prompt[10];
    struct rig r;
    struct outcome o;
    rig_init(&r, 1, 64, 64);
    fake_set_faults(r.backend, (struct fake_faults){.at_step = 2, .code = ERR_NOMEM});
    fill_prompt(prompt, 10, 1);
    struct engine_job_params p = params_of(prompt, 10, 20);
    struct job *first = add(&r, &p), *second = add(&r, &p);
    run(&r);
    read_log(first, &o);
    assert_true(o.failed && o.error.code == ERR_NOMEM);
    buf_fini(&o.text);
    assert_greedy(second);
    job_unref(&first);
    job_unref(&second);
    assert_all_returned(&r, 1);
    rig_fini(&r);
}

/* A step in which an expert could not be read: who wants it fails, the others go on as if alone.
 * With recurrent states, which have gone on already, all of that step fail. */
static void test_an_unreadable_expert_ends_only_who_wants_it(void **state)
{
    enum { N = 6, BAD = 500 };
    for (int recurrent = 0; recurrent < 2; recurrent++) {
        int32_t prompt[40];
        struct job *jobs[N];
        struct err e = {0};
        struct rig r;
        rig_init_recurrent(&r, N, 64, 512, recurrent ? 4 : -1);
        for (int i = 0; i < N; i++) {
            fill_prompt(prompt, 40, (unsigned)i + 1);
            for (int k = 0; k < 40; k++)
                prompt[k] = prompt[k] == BAD ? BAD + 1 : prompt[k];
            if (i == 2 || i == 4)
                prompt[30] = BAD;
            struct engine_job_params p = params_of(prompt, 40, 20);
            jobs[i] = add(&r, &p);
        }
        fake_set_faults(r.backend, (struct fake_faults){.token = BAD, .code = ERR_IO});
        assert_true(scheduler_step(r.scheduler, &e));
        fake_set_faults(r.backend, (struct fake_faults){0});
        run(&r);
        for (int i = 0; i < N; i++) {
            if (recurrent || i == 2 || i == 4) {
                struct outcome o;
                read_log(jobs[i], &o);
                assert_true(o.failed && o.error.code == ERR_IO);
                buf_fini(&o.text);
            } else {
                assert_greedy(jobs[i]);
            }
            job_unref(&jobs[i]);
        }
        assert_all_returned(&r, N);
        rig_fini(&r);
    }
}

static void test_context_can_be_filled_to_the_last_token(void **state)
{
    int32_t prompt[N_CTX];
    struct outcome o;
    struct rig r;
    rig_init(&r, 2, 16, 64); /* exactly one context */
    fill_prompt(prompt, 400, 1);
    struct engine_job_params p = params_of(prompt, 400, N_CTX - 400);
    p.ignore_eos = true;
    struct job *j = add(&r, &p), *other = add(&r, &p);
    run(&r);
    read_log(j, &o);
    assert_true(o.done && o.finish == ENGINE_LENGTH);
    assert_int_equal(o.n, N_CTX - 400);
    buf_fini(&o.text);
    read_log(other, &o);
    assert_int_equal(o.n, N_CTX - 400);
    buf_fini(&o.text);
    job_unref(&j);
    job_unref(&other);
    assert_all_returned(&r, 2);
    rig_fini(&r);
}

static void test_reader_that_does_not_read_ends_its_job_only(void **state)
{
    int32_t prompt[10];
    struct outcome o;
    struct rig r;
    rig_init(&r, 2, 64, 64);
    fill_prompt(prompt, 10, 1);
    struct engine_job_params p = params_of(prompt, 10, 200);
    p.ignore_eos = true;
    struct job *slow = add(&r, &p), *other = add(&r, &p);
    slow->log.limit = 2000;
    run(&r);
    read_log(slow, &o);
    assert_true(o.failed && o.error.code == ERR_LIMIT);
    buf_fini(&o.text);
    read_log(other, &o);
    assert_int_equal(o.n, 200);
    buf_fini(&o.text);
    job_unref(&slow);
    job_unref(&other);
    assert_all_returned(&r, 2);
    rig_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_job_gives_its_answer),
        cmocka_unit_test(test_many_jobs_answer_as_if_alone),
        cmocka_unit_test(test_too_few_blocks_pause_but_never_change_answers),
        cmocka_unit_test(test_seeded_answers_do_not_depend_on_company),
        cmocka_unit_test(test_answers_go_on_beside_a_long_prompt),
        cmocka_unit_test(test_prompts_of_several_jobs_share_a_step),
        cmocka_unit_test(test_users_take_turns),
        cmocka_unit_test(test_equal_users_get_equal_shares),
        cmocka_unit_test(test_background_gives_way),
        cmocka_unit_test(test_random_cancellations_leave_nothing_behind),
        cmocka_unit_test(test_lost_device_fails_every_job),
        cmocka_unit_test(test_failed_step_ends_only_its_jobs),
        cmocka_unit_test(test_an_unreadable_expert_ends_only_who_wants_it),
        cmocka_unit_test(test_context_can_be_filled_to_the_last_token),
        cmocka_unit_test(test_reader_that_does_not_read_ends_its_job_only),
    };
    return cmocka_run_group_tests(tests, rig_load_vocab, rig_unload_vocab);
}
