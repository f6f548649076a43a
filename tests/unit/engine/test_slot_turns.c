/* Users share the slots by time: nobody waits for the end of another's answers, and a job that gave
 * way goes on as if nothing had happened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "engine/grammar/gbnf.h"
#include "engine/model/model.h"
#include "engine/sched/policy/slot_turns.h"
#include "engine/wire/message.h"
#include "tests/unit/support/expert_models.h"
#include "tests/unit/support/fake_backend.h"
#include "tests/unit/support/scheduler_rig.h"

enum { ALICE = 1, BOB };

static struct job *ask(struct rig *r, uint64_t user, int32_t n_prompt, int32_t max_tokens)
{
    int32_t prompt[N_CTX];
    fill_prompt(prompt, n_prompt, (unsigned)r->last_id + 1);
    struct engine_job_params p = params_of(prompt, n_prompt, max_tokens);
    p.ignore_eos = true;
    p.user = user;
    return add(r, &p);
}

static void steps(struct rig *r, int n)
{
    struct err e = {0};
    for (int i = 0; i < n; i++)
        assert_true(scheduler_step(r->scheduler, &e));
}

/* How many steps the job takes, at most `most`. */
static int steps_until_over(struct rig *r, const struct job *j, int most)
{
    int n = 0;
    for (; j->state != JOB_OVER; n++) {
        assert_true(n < most);
        steps(r, 1);
    }
    return n;
}

/* The whole answer, as plain recursion gives it. */
static void assert_whole(struct job **at)
{
    struct job *j = *at;
    struct outcome o;
    int32_t history[N_CTX], n = j->params.n_prompt;
    read_log(j, &o);
    assert_true(o.done && o.finish == ENGINE_LENGTH);
    assert_int_equal(o.n, j->params.max_tokens);
    assert_int_equal(o.usage.completion_tokens, o.n);
    assert_true(o.usage.queue_ms >= 0 && o.usage.prefill_ms >= 0 && o.usage.decode_ms >= 0);
    memcpy(history, j->params.prompt, (size_t)n * sizeof *history);
    for (int32_t k = 0; k < o.n; k++) {
        assert_int_equal(o.ids[k], fake_greedy(history, n + k));
        history[n + k] = o.ids[k];
    }
    buf_fini(&o.text);
    job_unref(at);
}

static void test_one_user_in_all_slots_makes_room_for_another(void **state)
{
    enum { N = 20 };
    struct job *alice[N];
    for (int checkpoints = -1; checkpoints <= 8; checkpoints += 9) { /* plain, then recurrent */
        struct rig r;
        rig_init_recurrent(&r, 16, 512, 64, checkpoints);
        for (int i = 0; i < N; i++)
            alice[i] = ask(&r, ALICE, 20, 400);
        steps(&r, 100);
        assert_int_equal(scheduler_counts(r.scheduler).running, 16);
        assert_int_equal(scheduler_counts(r.scheduler).preempted, 0); /* nobody else is there */
        struct job *bob = ask(&r, BOB, 20, 5);
        steps_until_over(&r, bob, 10);
        assert_int_equal(scheduler_counts(r.scheduler).preempted, 1);
        run(&r);
        for (int i = 0; i < N; i++)
            assert_whole(&alice[i]);
        assert_whole(&bob);
        assert_all_returned(&r, 16);
        rig_fini(&r);
    }
}

static void test_a_job_that_has_just_begun_is_left_to_work(void **state)
{
    struct job *alice[4];
    struct rig r;
    rig_init(&r, 4, 512, 128);
    for (int i = 0; i < 4; i++)
        alice[i] = ask(&r, ALICE, 20, 400);
    steps(&r, 2);
    struct job *bob = ask(&r, BOB, 20, 5);
    steps(&r, 10);
    assert_int_equal(bob->state, JOB_WAITING);
    steps_until_over(&r, bob, SLOT_TURN_STEPS);
    run(&r);
    for (int i = 0; i < 4; i++)
        assert_whole(&alice[i]);
    assert_whole(&bob);
    assert_all_returned(&r, 4);
    rig_fini(&r);
}

static void test_two_users_end_up_with_half_each(void **state)
{
    enum { N = 32 };
    struct job *jobs[N];
    struct rig r;
    rig_init(&r, 16, 1024, 64);
    for (int i = 0; i < N / 2; i++)
        jobs[i] = ask(&r, ALICE, 20, 400);
    steps(&r, 80);
    for (int i = N / 2; i < N; i++)
        jobs[i] = ask(&r, BOB, 20, 400);
    for (int k = 0; k < 300; k++) {
        int alice = 0;
        steps(&r, 1);
        for (int i = 0; i < N / 2; i++)
            alice += jobs[i]->state != JOB_WAITING;
        assert_int_equal(alice, 8);
    }
    assert_int_equal(scheduler_counts(r.scheduler).preempted, 8);
    run(&r);
    for (int i = 0; i < N; i++)
        assert_whole(&jobs[i]);
    assert_all_returned(&r, 16);
    rig_fini(&r);
}

static void test_more_users_than_slots_all_go_on(void **state)
{
    enum { N = 17, ROUNDS = 5 };
    struct job *jobs[N];
    struct rig r;
    rig_init(&r, 16, 512, 64);
    for (int i = 0; i < N; i++)
        jobs[i] = ask(&r, (uint64_t)i + 1, 20, 400);
    for (int k = 0; k < ROUNDS; k++) {
        int32_t before[N];
        for (int i = 0; i < N; i++)
            before[i] = jobs[i]->n_generated;
        steps(&r, 3 * SLOT_TURN_STEPS);
        for (int i = 0; i < N; i++) /* nobody is left out for long */
            assert_true(jobs[i]->n_generated > before[i] || jobs[i]->state == JOB_OVER);
    }
    run(&r);
    uint64_t turns = scheduler_counts(r.scheduler).preempted;
    assert_true(turns >= 4 && turns <= N * 400 / 64); /* each was worth 64 tokens at least */
    for (int i = 0; i < N; i++)
        assert_whole(&jobs[i]);
    assert_all_returned(&r, 16);
    rig_fini(&r);
}

static void test_many_short_answers_do_not_keep_a_long_one_out(void **state)
{
    enum { N = 40 };
    struct job *bob[N];
    struct rig r;
    rig_init(&r, 1, 64, 64);
    struct job *alice = ask(&r, ALICE, 20, 200);
    steps(&r, 100);
    for (int i = 0; i < N; i++)
        bob[i] = ask(&r, BOB, 10, 30);
    steps_until_over(&r, alice, 8 * SLOT_TURN_STEPS);
    run(&r);
    assert_whole(&alice);
    for (int i = 0; i < N; i++)
        assert_whole(&bob[i]);
    rig_fini(&r);
}

static void test_blocks_are_shared_like_slots(void **state)
{
    struct job *alice[4];
    struct rig r;
    rig_init(&r, 8, 36, 64); /* room for some two contexts */
    for (int i = 0; i < 4; i++)
        alice[i] = ask(&r, ALICE, 200, 300);
    steps(&r, 100);
    struct job *bob = ask(&r, BOB, 300, 5);
    assert_true(scheduler_counts(r.scheduler).free_slots > 0);
    steps_until_over(&r, bob, 80);
    run(&r);
    for (int i = 0; i < 4; i++)
        assert_whole(&alice[i]);
    assert_whole(&bob);
    assert_all_returned(&r, 8);
    rig_fini(&r);
}

static void test_long_prompts_make_room(void **state)
{
    struct job *alice[4];
    struct rig r;
    rig_init(&r, 4, 128, 32);
    for (int i = 0; i < 4; i++)
        alice[i] = ask(&r, ALICE, 480, 10);
    steps(&r, 3); /* one is being read, three have not begun */
    struct job *bob = ask(&r, BOB, 20, 5);
    steps_until_over(&r, bob, 12);
    assert_int_equal(alice[1]->state, JOB_PREFILL);
    run(&r);
    for (int i = 0; i < 4; i++)
        assert_whole(&alice[i]);
    assert_whole(&bob);
    assert_all_returned(&r, 4);
    rig_fini(&r);
}

/* Without the prompt cache a pause costs the whole history again: the turns grow with it. */
static void test_pauses_cost_at_most_half_where_nothing_is_kept(void **state)
{
    struct job *jobs[2];
    struct rig r;
    rig_init_recurrent(&r, 1, 64, 64, 0); /* no copies of the state: nothing is reused */
    for (int i = 0; i < 2; i++)
        jobs[i] = ask(&r, (uint64_t)i + 1, 20, 480);
    run(&r);
    assert_true(scheduler_counts(r.scheduler).preempted > 2);
    assert_true(scheduler_counts(r.scheduler).rows <= 2 * 2 * 500 * 2);
    for (int i = 0; i < 2; i++)
        assert_whole(&jobs[i]);
    rig_fini(&r);
}

static void test_a_favoured_job_may_be_cancelled(void **state)
{
    struct job *alice[2];
    struct rig r;
    rig_init(&r, 2, 17, 64);
    alice[0] = ask(&r, ALICE, 100, 200);
    steps(&r, 90);
    alice[1] = ask(&r, ALICE, 100, 200); /* will have just begun */
    steps(&r, 5);
    struct job *bob = ask(&r, BOB, 500, 1); /* wants all blocks */
    steps(&r, 1);
    assert_int_equal(bob->state, JOB_WAITING);
    assert_int_equal(scheduler_counts(r.scheduler).preempted, 1);
    atomic_store(&bob->cancel, true);
    steps(&r, 1);
    assert_int_equal(bob->state, JOB_OVER);
    run(&r);
    assert_whole(&alice[0]);
    assert_whole(&alice[1]);
    job_unref(&bob);
    assert_all_returned(&r, 2);
    rig_fini(&r);
}

/* ---- over the cpu backend: tokens, text, logprobs to the last bit ---- */

#define CPU_JOBS 4

static struct model *model;

static void open_cpu(struct rig *r, int32_t slots)
{
    static int32_t eos[] = {-1};
    struct err e = {0};
    const struct model_plan *plan = model_plan(model);
    *r = (struct rig){.backend = cpu_backend.open(plan,
                                                  &(struct backend_params){.n_blocks = 64,
                                                                           .max_rows = 96,
                                                                           .max_sequences = slots,
                                                                           .n_threads = 1},
                                                  &e)};
    if (!r->backend)
        fail_msg("%s", e.text);
    r->scheduler = scheduler_create(&(struct scheduler_params){.ops = &cpu_backend,
                                                               .backend = r->backend,
                                                               .vocab = rig_vocab(),
                                                               .eos = eos,
                                                               .n_eos = 1,
                                                               .n_vocab = plan->n_vocab,
                                                               .n_ctx = N_CTX,
                                                               .n_slots = slots,
                                                               .n_blocks = 64,
                                                               .max_rows = 96},
                                    &e);
    assert_non_null(r->scheduler);
}

static void close_cpu(struct rig *r)
{
    scheduler_destroy(&r->scheduler);
    cpu_backend.close(&r->backend);
}

static struct buf compile(const char *text)
{
    struct err e = {0};
    struct buf out = {0};
    struct builder *b = builder_create(0, &e);
    expr x = gbnf_read(b, text, strlen(text), &e);
    if (x < 0 || !builder_finish(b, x, &out, &e))
        fail_msg("%s", e.text);
    builder_destroy(&b);
    return out;
}

/* All that the sampler, the grammar and the stops keep from token to token is in use. */
static struct job *ask_cpu(struct rig *r, int which, const struct buf *grammar)
{
    static const char *const stops[] = {"never to be met", "e\x01"};
    int32_t prompt[40];
    fill_prompt(prompt, 40, (unsigned)which + 1);
    struct engine_job_params p = params_of(prompt, 40, 150);
    p.user = (uint64_t)which + 1;
    p.ignore_eos = true;
    p.top_logprobs = 5;
    p.stop = stops;
    p.n_stop = 2;
    p.sampling.seed = (uint64_t)which + 7;
    p.sampling.temperature = which ? 0.9f : 0;
    p.sampling.repetition_penalty = 1.1f;
    p.sampling.presence_penalty = 0.3f;
    p.sampling.frequency_penalty = 0.2f;
    p.sampling.penalty_window = which == 1 ? 70 : 0;
    if (which == 2) {
        p.grammar = grammar->data;
        p.n_grammar = (uint32_t)grammar->len;
    }
    return add(r, &p);
}

static void put_tokens(struct buf *out, const struct engine_event *ev)
{
    for (int32_t i = 0; i < ev->n_tokens; i++) {
        const struct engine_token *t = &ev->tokens[i];
        buf_append(out, &t->id, sizeof t->id);
        buf_append(out, &t->logprob, sizeof t->logprob);
        for (int32_t k = 0; k < t->n_top; k++)
            buf_append(out, &t->top[k], sizeof t->top[k]);
    }
    buf_append(out, ev->text, ev->text_len);
}

/* Every byte of what the job said about its tokens, then how it ended. */
static struct buf transcript(struct job *j)
{
    struct event_box box = {0};
    struct buf all = {0}, out = {0};
    char piece[1000];
    struct err e = {0};
    struct engine_event ev;
    struct frame f;
    bool end;
    size_t used;
    for (size_t n; (n = event_log_read(&j->log, all.len, piece, sizeof piece, &end)) > 0;)
        buf_append(&all, piece, n);
    for (size_t at = 0; frame_parse(all.data + at, all.len - at, &f, &used, &e) == 1; at += used) {
        assert_true(message_get_event(&f, &ev, &box, &e));
        if (ev.type == ENGINE_TOKENS)
            put_tokens(&out, &ev);
        if (ev.type == ENGINE_DONE)
            buf_printf(&out, " finish %d tokens %d of %d", (int)ev.finish,
                       ev.usage.completion_tokens, ev.usage.prompt_tokens);
    }
    event_box_fini(&box);
    buf_fini(&all);
    return out;
}

static void test_resumed_answers_are_the_same_to_the_last_bit(void **state)
{
    struct buf grammar = compile("root ::= ([a-z]{3,9} \" \" [0-9]{2,5} \", \")*"), alone[CPU_JOBS];
    struct job *jobs[CPU_JOBS];
    struct err e = {0};
    struct rig r;
    model = model_open(expert_model_path("engine/demo-model"), &e);
    assert_non_null(model);
    open_cpu(&r, CPU_JOBS);
    for (int i = 0; i < CPU_JOBS; i++) {
        jobs[i] = ask_cpu(&r, i, &grammar);
        run(&r);
        alone[i] = transcript(jobs[i]);
        assert_true(alone[i].len > 150 * (8 + 5 * 8));
        job_unref(&jobs[i]);
    }
    assert_int_equal(scheduler_counts(r.scheduler).preempted, 0);
    close_cpu(&r);
    open_cpu(&r, 2);
    for (int i = 0; i < CPU_JOBS; i++)
        jobs[i] = ask_cpu(&r, i, &grammar);
    run(&r);
    assert_true(scheduler_counts(r.scheduler).preempted >= CPU_JOBS);
    for (int i = 0; i < CPU_JOBS; i++) {
        struct buf together = transcript(jobs[i]);
        assert_int_equal(together.len, alone[i].len);
        assert_memory_equal(together.data, alone[i].data, alone[i].len);
        buf_fini(&together);
        buf_fini(&alone[i]);
        job_unref(&jobs[i]);
    }
    close_cpu(&r);
    model_close(&model);
    buf_fini(&grammar);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_user_in_all_slots_makes_room_for_another),
        cmocka_unit_test(test_a_job_that_has_just_begun_is_left_to_work),
        cmocka_unit_test(test_two_users_end_up_with_half_each),
        cmocka_unit_test(test_more_users_than_slots_all_go_on),
        cmocka_unit_test(test_many_short_answers_do_not_keep_a_long_one_out),
        cmocka_unit_test(test_blocks_are_shared_like_slots),
        cmocka_unit_test(test_long_prompts_make_room),
        cmocka_unit_test(test_pauses_cost_at_most_half_where_nothing_is_kept),
        cmocka_unit_test(test_a_favoured_job_may_be_cancelled),
        cmocka_unit_test(test_resumed_answers_are_the_same_to_the_last_bit),
    };
    return cmocka_run_group_tests(tests, rig_load_vocab, rig_unload_vocab);
}
