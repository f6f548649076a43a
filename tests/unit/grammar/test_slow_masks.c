/* Patterns that are slow to follow beside other jobs: they wait for their own masks, nobody else
 * does, and no answer changes. Time is the scheduler's thread's own, whatever else the machine
 * does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/grammar/gbnf.h"
#include "tests/unit/support/fake_backend.h"
#include "tests/unit/support/scheduler_rig.h"

#define SLOW 6
#define TOKENS 60

/* Counted alternations: many places at once, and other ones after each token. */
static struct buf slow_pattern(int i)
{
    struct err e = {0};
    struct buf out = {0};
    char text[200];
    snprintf(text, sizeof text, "root ::= (([a-z]{1,3} \"-\"?){1,8} \" \"?){20,%d}", 60 + i);
    struct builder *b = builder_create(0, &e);
    expr x = gbnf_read(b, text, strlen(text), &e);
    if (x < 0 || !builder_finish(b, x, &out, &e))
        fail_msg("%s", e.text);
    builder_destroy(&b);
    return out;
}

static struct engine_job_params slow_params(const int32_t *prompt, const struct buf *program, int i)
{
    struct engine_job_params p = params_of(prompt, 8, 40);
    p.user = 1;
    p.grammar = program->data;
    p.n_grammar = (uint32_t)program->len;
    p.sampling.temperature = 1;
    p.sampling.seed = (uint64_t)(i + 1);
    return p;
}

static double thread_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

struct answers {
    struct outcome slow[SLOW];
};

static void fini(struct answers *a)
{
    for (int i = 0; i < SLOW; i++)
        buf_fini(&a->slow[i].text);
}

/* Each in a scheduler of its own, with nobody beside it: every mask is made by this thread. How
 * long it was at work. */
static double answer_alone(struct answers *a)
{
    const double begun = thread_ms();
    int32_t prompt[8];
    fill_prompt(prompt, 8, 1);
    for (int i = 0; i < SLOW; i++) {
        struct rig r;
        struct buf program = slow_pattern(i);
        rig_init(&r, 8, 64, 64);
        struct engine_job_params p = slow_params(prompt, &program, i);
        struct job *j = add(&r, &p);
        run(&r);
        read_log(j, &a->slow[i]);
        job_unref(&j);
        rig_fini(&r);
        buf_fini(&program);
    }
    return thread_ms() - begun;
}

/* All of them and a victim without a grammar. How long this thread was at work until the victim had
 * its answer. */
static double answer_together(struct answers *a)
{
    int32_t prompt[8];
    struct buf programs[SLOW];
    struct job *jobs[SLOW];
    struct err e = {0};
    struct rig r;
    fill_prompt(prompt, 8, 1);
    rig_init(&r, 8, 64, 64);
    for (int i = 0; i < SLOW; i++) {
        programs[i] = slow_pattern(i);
        struct engine_job_params p = slow_params(prompt, &programs[i], i);
        jobs[i] = add(&r, &p);
    }
    assert_true(scheduler_step(r.scheduler, &e)); /* reads the grammars */
    struct engine_job_params p = params_of(prompt, 8, TOKENS);
    p.ignore_eos = true;
    struct job *victim = add(&r, &p);
    const double begun = thread_ms();
    while (!atomic_load(&victim->over))
        assert_true(scheduler_step(r.scheduler, &e));
    const double work_ms = thread_ms() - begun;
    run(&r);
    struct outcome o;
    read_log(victim, &o);
    assert_int_equal(o.n, TOKENS);
    buf_fini(&o.text);
    for (int i = 0; i < SLOW; i++) {
        read_log(jobs[i], &a->slow[i]);
        job_unref(&jobs[i]);
        buf_fini(&programs[i]);
    }
    job_unref(&victim);
    assert_all_returned(&r, 8);
    rig_fini(&r);
    return work_ms;
}

static void test_slow_patterns_make_nobody_else_wait(void **state)
{
    struct answers alone = {0}, together = {0};
    (void)state;
    const double beside = answer_together(&together), by_itself = answer_alone(&alone);
    print_message("%d tokens beside six: %.1f ms; the masks: %.1f ms\n", TOKENS, beside, by_itself);
    for (int i = 0; i < SLOW; i++) {
        const struct outcome *x = &alone.slow[i], *y = &together.slow[i];
        assert_true(x->done && y->done && x->n > 5);
        assert_int_equal(x->n, y->n);
        assert_memory_equal(x->ids, y->ids, (size_t)x->n * sizeof *x->ids);
        assert_string_equal(x->text.data, y->text.data);
    }
    assert_true(beside < by_itself / 3);
    fini(&alone);
    fini(&together);
}

/* One program, whose states they share, and one of them leaves while its mask is being made. */
static void test_jobs_with_one_slow_pattern_answer_as_if_alone(void **state)
{
    enum { N = 5, LEAVES = 2 };
    int32_t prompt[8];
    struct buf program = slow_pattern(0);
    struct job *jobs[N];
    struct outcome alone[N] = {0}, o;
    struct err e = {0};
    struct rig r;
    (void)state;
    fill_prompt(prompt, 8, 1);
    for (int i = 0; i < N; i++) {
        rig_init(&r, 8, 64, 64);
        struct engine_job_params p = slow_params(prompt, &program, i);
        jobs[i] = add(&r, &p);
        run(&r);
        read_log(jobs[i], &alone[i]);
        job_unref(&jobs[i]);
        rig_fini(&r);
    }
    rig_init(&r, 8, 64, 64);
    for (int i = 0; i < N; i++) {
        struct engine_job_params p = slow_params(prompt, &program, i);
        jobs[i] = add(&r, &p);
    }
    for (int i = 0; i < 4; i++)
        assert_true(scheduler_step(r.scheduler, &e));
    atomic_store(&jobs[LEAVES]->cancel, true);
    run(&r);
    for (int i = 0; i < N; i++) {
        read_log(jobs[i], &o);
        assert_true(o.done && o.n > (i == LEAVES ? -1 : 5));
        assert_true(i == LEAVES ? o.n <= alone[i].n : o.n == alone[i].n);
        assert_memory_equal(o.ids, alone[i].ids, (size_t)o.n * sizeof *o.ids);
        buf_fini(&o.text);
        buf_fini(&alone[i].text);
        job_unref(&jobs[i]);
    }
    assert_all_returned(&r, 8);
    rig_fini(&r);
    buf_fini(&program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_patterns_make_nobody_else_wait),
        cmocka_unit_test(test_jobs_with_one_slow_pattern_answer_as_if_alone),
    };
    return cmocka_run_group_tests(tests, rig_load_vocab, rig_unload_vocab);
}
