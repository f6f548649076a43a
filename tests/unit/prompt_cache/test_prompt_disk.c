/* Jobs that continue from the disk. Over the fake backend, whose tokens are a function of all that
 * was read back, so that a wrong block changes an answer or fails a step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "tests/unit/prompt_cache/prompt_rows.h"
#include "tests/unit/support/fake_backend.h"
#include "tests/unit/support/scheduler_rig.h"
#include "tests/unit/support/patience.h"

#define SLOTS 4
#define BLOCKS 64
#define PROMPT 300

static struct prompt_rows rows;
static struct rig rig;
static bool recurrent;
static int32_t prompt[N_CTX];

static void open_rig(void)
{
    rig_use_disk(rows.cache, ROWS_IDENTITY);
    rig_init_recurrent(&rig, SLOTS, BLOCKS, 64, recurrent ? 8 : -1);
}

static int set_up(void **state)
{
    const struct backend_content *content = fake_backend.content;
    struct backend *b = fake_open(1, recurrent, 1, 1);
    prompt_rows_init(&rows, (uint32_t)content->block_bytes(b), (uint32_t)content->state_bytes(b));
    fake_backend.close(&b);
    open_rig();
    fill_prompt(prompt, N_CTX, 7);
    return 0;
}

static int set_up_recurrent(void **state)
{
    recurrent = true;
    return set_up(state);
}

static int tear_down(void **state)
{
    prompt_rows_settle(&rows, rig.scheduler);
    assert_all_returned(&rig, SLOTS);
    rig_fini(&rig);
    prompt_rows_fini(&rows);
    rig_use_disk(NULL, 0);
    recurrent = false;
    return 0;
}

static void restart(void)
{
    prompt_rows_settle(&rows, rig.scheduler);
    rig_fini(&rig);
    prompt_rows_reopen(&rows);
    open_rig();
}

static struct engine_job_params ask(int32_t n, int32_t max_tokens)
{
    struct engine_job_params p = params_of(prompt, n, max_tokens);
    strcpy(p.scope, "user:1");
    strcpy(p.cache_owner, "conversation");
    p.cache_keep_seconds = 60;
    p.user = 1;
    return p;
}

/* Runs a job to its end, with what rows know of its prompt. */
static struct outcome answer(int32_t n, int32_t max_tokens)
{
    struct engine_job_params p = ask(n, max_tokens);
    struct outcome o;
    prompt_rows_name(&rows, &p);
    struct job *j = add(&rig, &p);
    run(&rig);
    assert_greedy(j);
    read_log(j, &o);
    buf_fini(&o.text);
    job_unref(&j);
    prompt_rows_settle(&rows, rig.scheduler);
    return o;
}

static void test_an_answer_continues_from_the_disk_after_a_restart(void **state)
{
    struct outcome o = answer(PROMPT, 30);
    int32_t whole = (PROMPT + o.n - 1) / 32;
    assert_string_equal(o.usage.cache_miss, "unknown");
    assert_int_equal(rows.stored, whole); /* the last token's KV does not exist */
    assert_int_equal(rows.last.end, whole * 32);
    assert_int_equal(rows.last.user, 1);
    assert_string_equal(rows.last.owner, "conversation");
    assert_int_equal(rows.last.keep_seconds, 60);
    memcpy(prompt + PROMPT, o.ids, (size_t)o.n * sizeof *prompt); /* the next turn */
    restart();
    o = answer(PROMPT + o.n + 40, 20);
    assert_int_equal(o.usage.cached_from_disk, whole * 32);
    assert_int_equal(o.usage.cached_tokens, o.usage.cached_from_disk);
    assert_true(o.usage.cache_ms > 0 && o.usage.cache_ms <= o.usage.queue_ms);
    assert_true(o.usage.cache_bytes >= (uint64_t)o.usage.cached_from_disk / 32 * 4096);
    assert_string_equal(o.usage.cache_miss, "unknown"); /* of what was new */
    assert_int_equal(rows.used, 1);
    assert_true(rows.stored > 0); /* and that alone is stored */
    o = answer(PROMPT, 5);
    assert_int_equal(o.usage.cached_from_disk, 0); /* the device has it now */
    assert_int_equal(o.usage.cached_tokens, 288);
    assert_string_equal(o.usage.cache_miss, "");
}

/* Two prompts that part in the middle: the state where they part is copied when the second is read,
 * and stored with a block that was on disk without. */
static void test_a_third_prompt_resumes_where_two_parted(void **state)
{
    int32_t first[PROMPT];
    memcpy(first, prompt, sizeof first);
    for (unsigned i = 0; i < 3; i++) {
        memcpy(prompt, first, sizeof first);
        fill_prompt(prompt + 200, 100, 100 + i);
        if (i == 2)
            restart();
        struct outcome o = answer(PROMPT, 3);
        assert_int_equal(o.usage.cached_from_disk, i == 2 ? 192 : 0);
    }
}

static void test_a_damaged_block_is_computed_and_stored_again(void **state)
{
    answer(PROMPT, 1);
    const int32_t n = rows.n;
    struct engine_job_params p = ask(PROMPT, 1);
    prompt_rows_name(&rows, &p);
    struct stored_ref broken = p.stored[4];
    restart();
    prompt_rows_damage(&rows, &broken);
    struct outcome o = answer(PROMPT, 10);
    assert_string_equal(o.usage.cache_miss, "damaged");
    assert_int_equal(o.usage.cached_from_disk, recurrent ? 0 : 128);
    assert_int_equal(rows.gone, 1);
    assert_true(rows.n >= n);
    restart();
    o = answer(PROMPT, 10);
    assert_int_equal(o.usage.cached_from_disk, 288);
    assert_string_equal(o.usage.cache_miss, "");
}

static void test_names_that_are_not_the_prompts_are_ignored(void **state)
{
    answer(PROMPT, 1);
    restart();
    struct engine_job_params p = ask(PROMPT, 5);
    prompt_rows_name(&rows, &p);
    struct stored_ref wrong[9];
    memcpy(wrong, p.stored, sizeof wrong);
    wrong[2].key.bytes[0] ^= 1;
    p.stored = wrong;
    struct job *j = add(&rig, &p);
    struct outcome o;
    run(&rig);
    assert_greedy(j);
    read_log(j, &o);
    assert_int_equal(o.usage.cached_from_disk, recurrent ? 0 : 64);
    buf_fini(&o.text);
    job_unref(&j);
    restart();
    p = ask(PROMPT, 5); /* another user names what is not his */
    prompt_rows_name(&rows, &p);
    strcpy(p.scope, "user:2");
    j = add(&rig, &p);
    run(&rig);
    assert_greedy(j);
    read_log(j, &o);
    assert_int_equal(o.usage.cached_tokens, 0);
    assert_string_equal(o.usage.cache_miss, "unknown");
    buf_fini(&o.text);
    job_unref(&j);
}

static void test_what_must_not_be_kept_is_not_stored(void **state)
{
    struct engine_job_params p = ask(PROMPT, 5);
    p.cache_keep_seconds = -1;
    struct job *j = add(&rig, &p);
    run(&rig);
    job_unref(&j);
    prompt_rows_settle(&rows, rig.scheduler);
    assert_int_equal(rows.stored, 0);
}

static void test_forgetting_drops_what_the_device_has(void **state)
{
    answer(PROMPT, 5);
    assert_int_equal(answer(PROMPT, 5).usage.cached_tokens, 288);
    prompt_rows_forget_all(&rows);
    scheduler_rest(rig.scheduler);
    struct outcome o = answer(PROMPT, 5);
    assert_int_equal(o.usage.cached_tokens, 0);
    assert_string_equal(o.usage.cache_miss, "unknown");
    assert_int_equal(rows.n, 9); /* and stored anew */
}

/* A fast backend: a single block is computed sooner than it is loaded, at the rate that another
 * prompt was computed at. A busy machine may make that rate a slow one, so there are more tries. */
static void test_what_is_faster_computed_is_computed(void **state)
{
    struct engine_job_params other = params_of(prompt, PROMPT, 1);
    struct outcome o = answer(40, 1);
    for (int i = 0; i < 50 && strcmp(o.usage.cache_miss, "slower than computing") != 0; i++) {
        restart();
        struct job *first = add(&rig, &other);
        run(&rig);
        job_unref(&first);
        o = answer(40, 1);
    }
    assert_string_equal(o.usage.cache_miss, "slower than computing");
    assert_int_equal(o.usage.cached_from_disk, 0);
}

static void test_leaving_while_loading_leaves_nothing_behind(void **state)
{
    struct err e = {0};
    answer(PROMPT, 1);
    for (int steps = 1; steps < 6; steps++) {
        restart();
        struct engine_job_params p = ask(PROMPT, 20);
        prompt_rows_name(&rows, &p);
        struct job *j = add(&rig, &p), *other = add(&rig, &p);
        for (int i = 0; i < steps; i++)
            assert_true(scheduler_step(rig.scheduler, &e));
        assert_true(steps > 1 || j->state == JOB_LOADING);
        atomic_store(&j->cancel, true);
        run(&rig);
        assert_greedy(other);
        assert_all_returned(&rig, SLOTS);
        job_unref(&j);
        job_unref(&other);
    }
}

/* Many users on few blocks: jobs are preempted at any time, while they load too. */
static void test_preemption_while_loading_changes_no_answer(void **state)
{
    struct job *jobs[12];
    for (int i = 0; i < 12; i++) {
        fill_prompt(prompt, N_CTX, (unsigned)i % 3);
        answer(PROMPT, 1);
    }
    prompt_rows_settle(&rows, rig.scheduler);
    rig_fini(&rig);
    prompt_rows_reopen(&rows);
    rig_use_disk(rows.cache, ROWS_IDENTITY);
    rig_init_recurrent(&rig, SLOTS, 26, 64, recurrent ? 4 : -1);
    for (int i = 0; i < 12; i++) {
        fill_prompt(prompt, N_CTX, (unsigned)i % 3);
        struct engine_job_params p = ask(PROMPT, 60);
        p.user = (uint64_t)i % 4;
        prompt_rows_name(&rows, &p);
        struct stored_ref *own = malloc((size_t)p.n_stored * sizeof *own);
        memcpy(own, p.stored, (size_t)p.n_stored * sizeof *own);
        p.stored = own;
        jobs[i] = add(&rig, &p);
    }
    run(&rig);
    for (int i = 0; i < 12; i++) {
        assert_greedy(jobs[i]);
        free((void *)jobs[i]->params.stored);
        job_unref(&jobs[i]);
    }
    assert_true(scheduler_counts(rig.scheduler).preempted > 0);
}

/* The second waits for what the first is bringing, and finds it on the device. */
static void test_two_jobs_read_a_prompt_once(void **state)
{
    struct disk_counters c;
    struct outcome first, second;
    answer(PROMPT, 1);
    restart();
    struct engine_job_params p = ask(PROMPT, 20);
    prompt_rows_name(&rows, &p);
    struct job *a = add(&rig, &p), *b = add(&rig, &p);
    run(&rig);
    assert_greedy(a);
    assert_greedy(b);
    read_log(a, &first);
    read_log(b, &second);
    disk_cache_counters(rows.cache, &c);
    assert_int_equal(c.loaded, 288 / 32);
    assert_int_equal(first.usage.cached_from_disk, 288);
    assert_int_equal(second.usage.cached_tokens, 288);
    assert_int_equal(second.usage.cached_from_disk, 0);
    buf_fini(&first.text);
    buf_fini(&second.text);
    job_unref(&a);
    job_unref(&b);
}

/* Who waited for another's load begins a load of its own when that one leaves. */
static void test_who_waited_goes_on_when_the_other_leaves(void **state)
{
    struct err e = {0};
    struct outcome o;
    answer(PROMPT, 1);
    restart();
    struct engine_job_params p = ask(PROMPT, 20);
    prompt_rows_name(&rows, &p);
    struct job *a = add(&rig, &p), *b = add(&rig, &p);
    assert_true(scheduler_step(rig.scheduler, &e));
    assert_int_equal(a->state, JOB_LOADING);
    assert_int_equal(b->state, JOB_LOADING);
    assert_null(b->cache.load);
    atomic_store(&a->cancel, true);
    run(&rig);
    assert_greedy(b);
    read_log(b, &o);
    assert_int_equal(o.usage.cached_tokens, 288);
    buf_fini(&o.text);
    job_unref(&a);
    job_unref(&b);
}

static void step(int32_t times)
{
    struct err e = {0};
    while (times--)
        assert_true(scheduler_step(rig.scheduler, &e));
}

/* What the disk has is read beside the steps, which here take no time. */
static void step_until_decoding(const struct job *j)
{
    for (double end = clock_ms() + PATIENCE_MS; j->state != JOB_DECODE && clock_ms() < end;) {
        step(1);
        usleep(100);
    }
    assert_int_equal(j->state, JOB_DECODE);
}

/* What a job leaves that gives way in the middle of its answer is on disk before it is back. */
static void test_a_preempted_jobs_blocks_are_stored(void **state)
{
    rig_fini(&rig);
    rig_init_recurrent(&rig, 1, 32, 64, recurrent ? 4 : -1);
    struct engine_job_params p = ask(PROMPT, 60);
    p.priority = 1;
    struct job *j = add(&rig, &p);
    step_until_decoding(j);
    step(3);
    int32_t other[PROMPT];
    fill_prompt(other, PROMPT, 99);
    struct engine_job_params q = params_of(other, PROMPT, 100);
    q.cache_keep_seconds = -1;
    struct job *normal = add(&rig, &q);
    step(3);
    assert_true(j->preempted);
    assert_true(j->state == JOB_WAITING || j->state == JOB_LOADING); /* what it left itself */
    prompt_rows_settle(&rows, rig.scheduler);
    assert_in_range(rows.stored, 9, 10); /* its prompt; one more where it went on meanwhile */
    run(&rig);
    assert_greedy(j);
    assert_greedy(normal);
    job_unref(&j);
    job_unref(&normal);
    restart();
}

/* The disk cache knows what was stored since the start: a job that was submitted before its rows
 * were there, or that was preempted, continues from it too. */
static void test_what_was_just_stored_needs_no_row(void **state)
{
    struct outcome o;
    answer(PROMPT, 1);
    rig_fini(&rig);
    open_rig(); /* the device knows nothing */
    struct engine_job_params p = ask(PROMPT, 5);
    assert_int_equal(p.n_stored, 0);
    struct job *j = add(&rig, &p);
    run(&rig);
    assert_greedy(j);
    read_log(j, &o);
    assert_int_equal(o.usage.cached_from_disk, 288);
    buf_fini(&o.text);
    job_unref(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define BOTH(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, set_up, tear_down),                                      \
        cmocka_unit_test_setup_teardown(name, set_up_recurrent, tear_down)
        BOTH(test_an_answer_continues_from_the_disk_after_a_restart),
        cmocka_unit_test_setup_teardown(test_a_third_prompt_resumes_where_two_parted,
                                        set_up_recurrent, tear_down),
        BOTH(test_a_damaged_block_is_computed_and_stored_again),
        BOTH(test_names_that_are_not_the_prompts_are_ignored),
        BOTH(test_what_must_not_be_kept_is_not_stored),
        BOTH(test_forgetting_drops_what_the_device_has),
        BOTH(test_what_is_faster_computed_is_computed),
        BOTH(test_leaving_while_loading_leaves_nothing_behind),
        BOTH(test_preemption_while_loading_changes_no_answer),
        BOTH(test_two_jobs_read_a_prompt_once),
        BOTH(test_who_waited_goes_on_when_the_other_leaves),
        BOTH(test_a_preempted_jobs_blocks_are_stored),
        BOTH(test_what_was_just_stored_needs_no_row),
    };
    return cmocka_run_group_tests(tests, rig_load_vocab, rig_unload_vocab);
}
