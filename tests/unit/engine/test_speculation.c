/* Drafts change nothing but the number of steps: each answer with drafts, right or wrong ones, is
 * the one without, token for token, and what was rejected leaves nothing behind. Over the fake
 * backend, which fails a step whose KV or recurrent state is not that of its history. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "engine/draft/draft_model.h"
#include "tests/unit/support/fake_backend.h"
#include "tests/unit/support/scheduler_rig.h"

#define JOBS 10
#define MOST 90
#define SEATS 4
#define WINDOW 128

static const int32_t depths[] = {1, 2, 5, DRAFT_MAX};

struct question {
    int32_t prompt[160], prediction[MOST];
    struct engine_job_params params;
};

static struct question questions[JOBS];
static struct outcome plain[JOBS];

static void ask_plainly(int i)
{
    struct rig r;
    rig_use_drafts(ENGINE_SPECULATE_OFF, 0);
    rig_init(&r, 1, 32, 64);
    struct job *j = add(&r, &questions[i].params);
    run(&r);
    read_log(j, &plain[i]);
    assert_true(plain[i].done);
    job_unref(&j);
    rig_fini(&r);
}

/* Every kind of sampling and ending; the prediction is the answer with every seventh token or so
 * wrong. */
static void prepare(void)
{
    static const char *const stops[] = {"the", "qu"};
    static const int32_t banned[] = {2, 17, 40, 1, 99};
    for (int i = 0; i < JOBS; i++) {
        struct question *q = &questions[i];
        int32_t n = 3 + i * 53 % 150;
        fill_prompt(q->prompt, n, (unsigned)(i % 6));
        struct engine_job_params p = params_of(q->prompt, n, MOST - i);
        p.user = (uint64_t)(i % 3);
        p.ignore_eos = i % 2;
        p.sampling.temperature = i % 3 ? 0.9f : 0;
        p.sampling.top_k = i % 4 == 1 ? 20 : 0;
        p.sampling.top_p = i % 4 == 2 ? 0.8f : 1;
        p.sampling.min_p = i % 4 == 3 ? 0.1f : 0;
        p.sampling.presence_penalty = i % 5 == 2 ? 0.6f : 0;
        p.sampling.repetition_penalty = i == 3 ? 1.2f : 1;
        p.sampling.penalty_window = i == 3 ? 10 : 0;
        p.sampling.seed = (uint64_t)(7 * i + 1);
        p.top_logprobs = i == 4 ? 3 : -1;
        p.min_tokens = i == 1 ? 40 : 0;
        if (i == 5) {
            p.stop = stops;
            p.n_stop = 2;
        }
        if (i == 6) {
            p.banned = banned;
            p.n_banned = 5;
        }
        q->params = p;
        ask_plainly(i);
        q->params.prediction = q->prediction;
        q->params.n_prediction = plain[i].n;
        for (int32_t k = 0; k < plain[i].n; k++)
            q->prediction[k] =
                (k + i) % 7 == 6 ? (plain[i].ids[k] + 1) % FAKE_VOCAB : plain[i].ids[k];
    }
}

static void forget(void)
{
    rig_use_drafts(ENGINE_SPECULATE_OFF, 0);
    for (int i = 0; i < JOBS; i++)
        buf_fini(&plain[i].text);
}

static void assert_plain(struct job *j, int i, struct engine_speculation *sum)
{
    struct outcome o;
    read_log(j, &o);
    if (o.failed)
        fail_msg("question %d: %s", i, o.error.text);
    assert_int_equal(o.n, plain[i].n);
    assert_memory_equal(o.ids, plain[i].ids, (size_t)o.n * sizeof *o.ids);
    assert_int_equal(o.text.len, plain[i].text.len);
    assert_memory_equal(o.text.data ? o.text.data : "", o.text.data ? plain[i].text.data : "",
                        o.text.len);
    assert_int_equal(o.finish, plain[i].finish);
    assert_string_equal(o.stop, plain[i].stop);
    assert_int_equal(o.usage.completion_tokens, plain[i].usage.completion_tokens);
    const struct engine_speculation *u = &o.usage.speculation;
    int32_t drafted = 0, accepted = 0;
    for (int k = 0; k < ENGINE_MAX_DRAFT; k++) {
        assert_true(u->accepted_at[k] <= u->drafted_at[k]);
        drafted += u->drafted_at[k];
        accepted += u->accepted_at[k];
    }
    assert_int_equal(u->drafted, drafted);
    assert_int_equal(u->accepted, accepted);
    assert_true(u->prediction_accepted <= accepted);
    sum->drafted += drafted;
    sum->accepted += accepted;
    sum->prediction_accepted += u->prediction_accepted;
    sum->prediction_rejected += u->prediction_rejected;
    buf_fini(&o.text);
}

/* All questions at once; *steps: how many that took. */
static struct engine_speculation ask_all(struct rig *r, uint64_t *steps)
{
    struct engine_speculation sum = {0};
    struct job *jobs[JOBS];
    uint64_t before = scheduler_counts(r->scheduler).steps;
    for (int i = 0; i < JOBS; i++)
        jobs[i] = add(r, &questions[i].params);
    run(r);
    *steps = scheduler_counts(r->scheduler).steps - before;
    for (int i = 0; i < JOBS; i++) {
        assert_plain(jobs[i], i, &sum);
        job_unref(&jobs[i]);
    }
    return sum;
}

static void test_answers_are_those_without_drafts(void **state)
{
    struct rig r;
    uint64_t without, with = 0;
    prepare();
    rig_init(&r, JOBS, 128, 64);
    assert_int_equal(ask_all(&r, &without).drafted, 0);
    rig_fini(&r);
    for (size_t d = 0; d < sizeof depths / sizeof depths[0]; d++) {
        rig_use_drafts(ENGINE_SPECULATE_AUTO, depths[d]);
        rig_init(&r, JOBS, 128, 64);
        for (int turn = 0; turn < 2; turn++) { /* the second finds the first one's blocks */
            struct engine_speculation sum = ask_all(&r, &with);
            assert_true(sum.accepted > 100 && sum.accepted < sum.drafted);
            /* then it is also known from the answers before */
            assert_true(turn || (sum.prediction_accepted > 100 && sum.prediction_rejected > 10));
        }
        assert_all_returned(&r, JOBS);
        rig_fini(&r);
    }
    assert_true(with * 3 < without * 2);
    forget();
}

/* Tokens that were drafted for the same question of this user. */
static int32_t drafted_for(struct rig *r, const char *scope, int64_t keep, int32_t *accepted)
{
    struct engine_job_params p = questions[0].params;
    struct engine_speculation sum = {0};
    p.n_prediction = 0;
    p.cache_keep_seconds = keep;
    snprintf(p.scope, sizeof p.scope, "%s", scope);
    struct job *j = add(r, &p);
    run(r);
    assert_plain(j, 0, &sum);
    job_unref(&j);
    *accepted = sum.accepted;
    return sum.drafted;
}

static void test_earlier_answers_are_drafted_for_their_user_alone(void **state)
{
    struct rig r;
    int32_t first, again, other;
    prepare();
    rig_use_drafts(ENGINE_SPECULATE_NGRAM, 5);
    rig_init(&r, 2, 64, 64);
    const int32_t drafted = drafted_for(&r, "anna", 0, &first);
    assert_true(drafted_for(&r, "anna", 0, &again) > drafted && again > plain[0].n / 2);
    assert_int_equal(drafted_for(&r, "ben", 0, &other), drafted);
    assert_true(other == first && first < again);
    rig_fini(&r);
    forget();
}

/* As a temporary chat: in memory it goes on from its blocks, but no other chat drafts by them. */
static void test_what_is_not_to_be_stored_is_not_remembered(void **state)
{
    struct rig r;
    int32_t first, again;
    prepare();
    rig_use_drafts(ENGINE_SPECULATE_NGRAM, 5);
    rig_init(&r, 2, 64, 64);
    const int32_t drafted = drafted_for(&r, "anna", -1, &first);
    assert_int_equal(drafted_for(&r, "anna", 0, &again), drafted);
    assert_int_equal(again, first);
    rig_fini(&r);
    forget();
}

/* The end of an answer that fills no block of its own would stay when that answer is deleted. */
static void test_an_end_behind_others_words_is_not_remembered(void **state)
{
    struct rig r;
    int32_t prompt[40], drafted[2];
    fill_prompt(prompt, 40, 3);
    struct engine_job_params p = params_of(prompt, 40, 20);
    rig_use_drafts(ENGINE_SPECULATE_NGRAM, 5);
    rig_init(&r, 2, 64, 64);
    for (int i = 0; i < 2; i++) {
        struct outcome o;
        struct job *j = add(&r, &p);
        run(&r);
        read_log(j, &o);
        drafted[i] = o.usage.speculation.drafted;
        buf_fini(&o.text);
        job_unref(&j);
    }
    assert_int_equal(drafted[1], drafted[0]);
    rig_fini(&r);
    rig_use_drafts(ENGINE_SPECULATE_OFF, 0);
}

static void test_pauses_in_between_change_nothing(void **state)
{
    struct rig r;
    uint64_t steps;
    prepare();
    for (size_t d = 0; d < sizeof depths / sizeof depths[0]; d++) {
        rig_use_drafts(ENGINE_SPECULATE_NGRAM, depths[d]);
        rig_init(&r, 8, 17, 64); /* one context needs 16 blocks */
        assert_true(ask_all(&r, &steps).accepted > 50);
        assert_true(scheduler_counts(r.scheduler).preempted > 0);
        assert_all_returned(&r, 8);
        rig_fini(&r);
    }
    forget();
}

static void test_recurrent_states_go_back(void **state)
{
    struct rig r;
    uint64_t steps;
    prepare();
    for (int32_t checkpoints = 0; checkpoints < 5; checkpoints += 4)
        for (size_t d = 0; d < sizeof depths / sizeof depths[0]; d++) {
            rig_use_drafts(ENGINE_SPECULATE_AUTO, depths[d]);
            rig_init_recurrent(&r, 4, 40, 64, checkpoints);
            for (int turn = 0; turn < 2; turn++)
                assert_true(ask_all(&r, &steps).accepted > 50);
            assert_all_returned(&r, 4);
            rig_fini(&r);
        }
    forget();
}

static void test_a_request_may_refuse_drafts_but_not_ask_where_there_are_none(void **state)
{
    static const struct {
        enum engine_speculate server, job, applied;
    } cases[] = {
        {ENGINE_SPECULATE_AUTO, ENGINE_SPECULATE_SERVER, ENGINE_SPECULATE_AUTO},
        {ENGINE_SPECULATE_AUTO, ENGINE_SPECULATE_OFF, ENGINE_SPECULATE_OFF},
        {ENGINE_SPECULATE_AUTO, ENGINE_SPECULATE_NGRAM, ENGINE_SPECULATE_NGRAM},
        {ENGINE_SPECULATE_OFF, ENGINE_SPECULATE_AUTO, ENGINE_SPECULATE_OFF},
    };
    struct rig r;
    prepare();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rig_use_drafts(cases[i].server, 4);
        rig_init(&r, 1, 32, 64);
        struct engine_job_params p = questions[0].params;
        p.speculate = cases[i].job;
        struct job *j = add(&r, &p);
        struct outcome o;
        run(&r);
        read_log(j, &o);
        assert_int_equal(o.usage.speculation.applied, cases[i].applied);
        assert_int_equal(o.usage.speculation.drafted > 0, cases[i].applied != ENGINE_SPECULATE_OFF);
        buf_fini(&o.text);
        job_unref(&j);
        rig_fini(&r);
    }
    forget();
}

static void test_cancelled_in_mid_draft_leaves_nothing(void **state)
{
    struct rig r;
    struct err e = {0};
    prepare();
    rig_use_drafts(ENGINE_SPECULATE_AUTO, 8);
    for (int steps = 2; steps < 20; steps++) {
        struct job *jobs[JOBS];
        uint64_t more;
        rig_init_recurrent(&r, JOBS, 128, 64, 4);
        for (int i = 0; i < JOBS; i++)
            jobs[i] = add(&r, &questions[i].params);
        for (int i = 0; i < steps; i++)
            assert_true(scheduler_step(r.scheduler, &e));
        scheduler_cancel_all(r.scheduler);
        run(&r);
        for (int i = 0; i < JOBS; i++)
            job_unref(&jobs[i]);
        assert_all_returned(&r, JOBS);
        ask_all(&r, &more); /* what the cancelled ones left in the cache is right */
        rig_fini(&r);
    }
    forget();
}

static void test_a_draft_that_cannot_be_computed_fails_nobody(void **state)
{
    struct rig r;
    uint64_t steps;
    prepare();
    int32_t unused = 5; /* in no prompt and no answer */
    for (bool found = true; found; unused += found) {
        found = false;
        for (int i = 0; i < JOBS && !found; i++) {
            for (int32_t k = 0; k < questions[i].params.n_prompt; k++)
                found |= questions[i].prompt[k] == unused;
            for (int32_t k = 0; k < plain[i].n; k++)
                found |= plain[i].ids[k] == unused;
        }
        assert_true(unused < FAKE_VOCAB);
    }
    for (int i = 0; i < JOBS; i++)
        for (int32_t k = 0; k < plain[i].n; k++)
            if (questions[i].prediction[k] != plain[i].ids[k])
                questions[i].prediction[k] = unused;
    rig_use_drafts(ENGINE_SPECULATE_AUTO, 2);
    rig_init(&r, 2, 64, 64);
    fake_set_faults(r.backend, (struct fake_faults){.token = unused, .code = ERR_IO});
    assert_true(ask_all(&r, &steps).accepted > 50);
    rig_fini(&r);
    forget();
}

static void test_the_choice_by_itself_changes_nothing_either(void **state)
{
    struct rig r;
    uint64_t steps;
    prepare();
    rig_use_drafts(ENGINE_SPECULATE_AUTO, 0);
    rig_init(&r, 3, 64, 64);
    for (int turn = 0; turn < 4; turn++)
        ask_all(&r, &steps);
    assert_all_returned(&r, 3);
    rig_fini(&r);
    forget();
}

static struct backend *draft_backend;
static struct draft_model *draft_model;

/* The fake model drafts for itself; what it forgot of a long text makes it wrong. */
static void open_draft_model(bool recurrent)
{
    struct err e = {0};
    draft_backend = fake_open(SEATS * WINDOW / BACKEND_BLOCK_TOKENS,
                              recurrent ? SEATS * DRAFT_SEAT_STATES : 0, DRAFT_STEP_ROWS, SEATS);
    draft_model = draft_model_create(&(struct draft_model_params){.ops = &fake_backend,
                                                                  .backend = draft_backend,
                                                                  .n_vocab = FAKE_VOCAB,
                                                                  .target_vocab = FAKE_VOCAB,
                                                                  .n_recurrent = recurrent,
                                                                  .n_seats = SEATS,
                                                                  .window = WINDOW},
                                     &e);
    assert_non_null(draft_model);
    rig_use_draft_model(draft_model);
}

static void close_draft_model(void)
{
    assert_int_equal(draft_model_counts(draft_model).taken, 0);
    draft_model_destroy(&draft_model);
    fake_backend.close(&draft_backend);
    rig_use_draft_model(NULL);
}

static void test_a_draft_model_changes_no_answer(void **state)
{
    static const enum engine_speculate by[] = {ENGINE_SPECULATE_DRAFT, ENGINE_SPECULATE_AUTO};
    struct rig r;
    uint64_t steps;
    prepare();
    for (int i = 0; i < 4; i++)
        for (size_t d = 0; d < sizeof depths / sizeof depths[0]; d++) {
            open_draft_model(i % 2);
            rig_use_drafts(by[i / 2], depths[d]);
            rig_init(&r, 6, 40, 64); /* some are preempted, and give back their seats */
            for (int turn = 0; turn < 2; turn++) {
                struct engine_speculation sum = ask_all(&r, &steps);
                assert_true(sum.accepted > 100 && sum.accepted < sum.drafted);
                if (by[i / 2] == ENGINE_SPECULATE_DRAFT)
                    assert_int_equal(sum.prediction_accepted + sum.prediction_rejected, 0);
            }
            assert_all_returned(&r, 6);
            assert_true(draft_model_counts(draft_model).rows > 500);
            rig_fini(&r);
            close_draft_model();
        }
    forget();
}

static void test_a_draft_model_that_fails_is_left_out(void **state)
{
    struct rig r;
    uint64_t steps;
    prepare();
    rig_use_drafts(ENGINE_SPECULATE_DRAFT, 5);
    for (int at = 1; at < 40; at += 6) {
        open_draft_model(false);
        fake_set_faults(draft_backend, (struct fake_faults){.at_step = at, .code = ERR_DEVICE});
        rig_init(&r, JOBS, 128, 64);
        ask_all(&r, &steps);
        assert_all_returned(&r, JOBS);
        rig_fini(&r);
        close_draft_model();
    }
    forget();
}

static void test_cancelled_jobs_give_back_their_seats(void **state)
{
    struct rig r;
    struct err e = {0};
    prepare();
    rig_use_drafts(ENGINE_SPECULATE_DRAFT, 4);
    open_draft_model(false);
    rig_init(&r, JOBS, 128, 64);
    struct job *jobs[JOBS];
    for (int i = 0; i < JOBS; i++)
        jobs[i] = add(&r, &questions[i].params);
    for (int i = 0; i < 8; i++)
        assert_true(scheduler_step(r.scheduler, &e));
    assert_int_equal(draft_model_counts(draft_model).taken, SEATS);
    scheduler_cancel_all(r.scheduler);
    run(&r);
    assert_int_equal(draft_model_counts(draft_model).taken, 0);
    for (int i = 0; i < JOBS; i++)
        job_unref(&jobs[i]);
    rig_fini(&r);
    close_draft_model();
    forget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_are_those_without_drafts),
        cmocka_unit_test(test_earlier_answers_are_drafted_for_their_user_alone),
        cmocka_unit_test(test_what_is_not_to_be_stored_is_not_remembered),
        cmocka_unit_test(test_an_end_behind_others_words_is_not_remembered),
        cmocka_unit_test(test_pauses_in_between_change_nothing),
        cmocka_unit_test(test_recurrent_states_go_back),
        cmocka_unit_test(test_a_request_may_refuse_drafts_but_not_ask_where_there_are_none),
        cmocka_unit_test(test_cancelled_in_mid_draft_leaves_nothing),
        cmocka_unit_test(test_a_draft_that_cannot_be_computed_fails_nobody),
        cmocka_unit_test(test_the_choice_by_itself_changes_nothing_either),
        cmocka_unit_test(test_a_draft_model_changes_no_answer),
        cmocka_unit_test(test_a_draft_model_that_fails_is_left_out),
        cmocka_unit_test(test_cancelled_jobs_give_back_their_seats),
    };
    return cmocka_run_group_tests(tests, rig_load_vocab, rig_unload_vocab);
}
