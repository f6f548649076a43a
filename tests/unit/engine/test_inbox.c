/* What the I/O thread does with jobs before the scheduler has them: limits, the hand-over, logs,
 * the table of jobs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/sched/inbox.h"
#include "engine/sched/job_table.h"
#include "tests/unit/support/patience.h"

static const int32_t prompt[] = {1, 2, 3};
static const struct jobs_waiting nothing;

static struct job *make_job(uint64_t id, const char *key)
{
    struct engine_job_params p = {
        .prompt = prompt, .n_prompt = 3, .max_tokens = 10, .detached = key != NULL};
    struct err e = {0};
    if (key)
        strcpy(p.key, key);
    struct job *j = job_create(id, arena_create(0), &p, &e);
    assert_non_null(j);
    return j;
}

static bool check(struct inbox *in, int32_t n_prompt, int32_t max_tokens, int32_t *cut,
                  struct err *e)
{
    static int32_t zeros[200];
    int32_t position;
    struct engine_job_params p = {.prompt = zeros, .n_prompt = n_prompt, .max_tokens = max_tokens};
    bool ok = inbox_check(in, &p, &nothing, &position, e);
    *cut = p.max_tokens;
    return ok;
}

static void test_loading_and_closed_refuse_with_the_reason(void **state)
{
    struct inbox in;
    struct err e = {0}, why = {0};
    int32_t cut;
    inbox_init(&in);
    assert_false(check(&in, 1, 1, &cut, &e));
    assert_int_equal(e.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(e.text, "loading"));
    inbox_open(&in, &(struct inbox_limits){.n_vocab = 10, .n_ctx = 100, .max_queue = 2});
    assert_true(check(&in, 1, 1, &cut, &e));
    err_set(&why, ERR_UNAVAILABLE, "stopping");
    inbox_close(&in, &why);
    assert_false(check(&in, 1, 1, &cut, &e));
    assert_string_equal(e.text, "stopping");
    inbox_open(&in,
               &(struct inbox_limits){
                   .max_queue = 2}); /* a load that ends after the stop does not open it again */
    assert_false(check(&in, 1, 1, &cut, &e));
    inbox_fini(&in);
}

static void test_answers_are_cut_to_what_the_context_leaves(void **state)
{
    struct inbox in;
    struct err e = {0};
    int32_t cut;
    inbox_init(&in);
    inbox_open(&in, &(struct inbox_limits){.n_vocab = 10, .n_ctx = 100, .max_queue = 2});
    assert_true(check(&in, 90, 50, &cut, &e));
    assert_int_equal(cut, 10);
    assert_true(check(&in, 100, 0, &cut, &e));
    assert_false(check(&in, 100, 1, &cut, &e));
    assert_false(check(&in, 101, 0, &cut, &e));
    assert_int_equal(e.code, ERR_LIMIT);
    assert_non_null(strstr(e.text, "101 tokens, the context holds 100"));
    inbox_fini(&in);
}

static void test_drafts_are_refused_where_there_are_none(void **state)
{
    struct inbox in;
    struct err e = {0};
    int32_t position;
    static const int32_t outside[] = {1, 10};
    struct engine_job_params p = {.prompt = prompt, .n_prompt = 3, .max_tokens = 1};
    struct inbox_limits limits = {.n_vocab = 10, .n_ctx = 100, .max_queue = 2};
    limits.speculate.applied = ENGINE_SPECULATE_OFF;
    inbox_init(&in);
    inbox_open(&in, &limits);
    for (int s = ENGINE_SPECULATE_SERVER; s <= ENGINE_SPECULATE_OFF; s++) {
        p.speculate = (enum engine_speculate)s;
        assert_true(inbox_check(&in, &p, &nothing, &position, &e));
    }
    p.speculate = ENGINE_SPECULATE_NGRAM;
    assert_false(inbox_check(&in, &p, &nothing, &position, &e));
    assert_string_equal(e.field, "speculate");
    assert_int_equal(e.code, ERR_INPUT);
    p.speculate = ENGINE_SPECULATE_AUTO;
    p.prediction = outside;
    p.n_prediction = 2;
    assert_false(inbox_check(&in, &p, &nothing, &position, &e));
    assert_string_equal(e.field, "prediction");
    inbox_fini(&in);
}

static bool check_experts(struct inbox *in, int32_t experts, struct err *e)
{
    int32_t position;
    struct engine_job_params p = {
        .prompt = prompt, .n_prompt = 3, .max_tokens = 1, .experts_per_token = experts};
    return inbox_check(in, &p, &nothing, &position, e);
}

static void test_more_experts_than_the_model_has_are_refused(void **state)
{
    struct inbox in, dense;
    struct err e = {0};
    inbox_init(&in);
    inbox_open(&in, &(struct inbox_limits){
                        .n_vocab = 10, .n_ctx = 100, .max_queue = 2, .trained_top_k = 8});
    assert_true(check_experts(&in, 0, &e));
    assert_true(check_experts(&in, 8, &e));
    assert_false(check_experts(&in, 9, &e));
    assert_int_equal(e.code, ERR_INPUT);
    assert_string_equal(e.field, "experts_per_token");
    assert_non_null(strstr(e.text, "want 1 to 8"));
    inbox_init(&dense);
    inbox_open(&dense, &(struct inbox_limits){.n_vocab = 10, .n_ctx = 100, .max_queue = 2});
    assert_true(check_experts(&dense, 0, &e));
    assert_false(check_experts(&dense, 1, &e));
    assert_non_null(strstr(e.text, "has no experts"));
    inbox_fini(&in);
    inbox_fini(&dense);
}

static void test_queue_is_bounded_by_all_that_wait(void **state)
{
    struct inbox in;
    struct err e = {0};
    int32_t cut;
    bool stop;
    inbox_init(&in);
    inbox_open(&in, &(struct inbox_limits){.n_vocab = 10, .n_ctx = 100, .max_queue = 2});
    inbox_push(&in, make_job(1, NULL));
    inbox_push(&in, make_job(2, NULL));
    assert_false(check(&in, 1, 1, &cut, &e));
    assert_int_equal(e.code, ERR_BUSY);
    struct job *list =
        inbox_take(&in, 0, &stop); /* taken, but still waiting as far as anyone knows */
    assert_int_equal(list->id, 1);
    assert_int_equal(list->next->id, 2);
    assert_false(check(&in, 1, 1, &cut, &e));
    inbox_report(&in, 1, 12);
    assert_true(check(&in, 1, 1, &cut, &e));
    inbox_report(&in, 2, 12);
    assert_false(check(&in, 1, 1, &cut, &e));
    assert_non_null(strstr(e.text, "about 12 s"));
    for (struct job *next; list; list = next) {
        next = list->next;
        job_unref(&list);
    }
    inbox_fini(&in);
}

static bool check_user(struct inbox *in, int32_t queued, struct err *e)
{
    int32_t position;
    struct engine_job_params p = {.prompt = prompt, .n_prompt = 3, .max_tokens = 1};
    return inbox_check(in, &p, &(struct jobs_waiting){.own = queued}, &position, e);
}

static void test_one_user_has_a_share_of_the_queue(void **state)
{
    struct inbox in, small;
    struct err e = {0};
    inbox_init(&in);
    inbox_open(&in, &(struct inbox_limits){.n_vocab = 10, .n_ctx = 100, .max_queue = 256});
    inbox_report(&in, 64, 7);
    assert_true(check_user(&in, 63, &e));
    assert_false(check_user(&in, 64, &e));
    assert_int_equal(e.code, ERR_BUSY);
    assert_string_equal(e.field, ENGINE_OWN_JOBS);
    assert_non_null(strstr(e.text, "64 of your jobs are waiting already"));
    assert_non_null(strstr(e.text, "about 7 s"));
    assert_true(check_user(&in, 0, &e)); /* somebody else */
    inbox_fini(&in);
    inbox_init(&small);
    inbox_open(&small, &(struct inbox_limits){.n_vocab = 10, .n_ctx = 100, .max_queue = 12});
    assert_true(check_user(&small, 7, &e)); /* a share is 8 at least */
    assert_false(check_user(&small, 8, &e));
    inbox_fini(&small);
}

static bool check_text(struct inbox *in, int64_t all, int64_t own, struct err *e)
{
    static const int32_t end = 3, first = 0;
    int32_t position;
    struct engine_job_params p = {
        .prompt = prompt, .n_prompt = 3, .text_ends = &end, .text_firsts = &first, .n_texts = 1};
    *e = (struct err){0};
    return inbox_check(in, &p, &(struct jobs_waiting){.text_tokens = all, .own_text_tokens = own},
                       &position, e);
}

static void test_tokens_that_wait_are_bounded(void **state)
{
    struct inbox in;
    struct err e;
    const int64_t all = INBOX_TEXT_TOKENS, share = all / 4;
    inbox_init(&in);
    inbox_open(&in, &(struct inbox_limits){.n_vocab = 10, .n_ctx = 100, .max_queue = 256});
    assert_true(check_text(&in, all - 3, 0, &e));
    assert_false(check_text(&in, all - 2, 0, &e));
    assert_int_equal(e.code, ERR_BUSY);
    assert_string_equal(e.field, "");
    assert_true(check_text(&in, share, share - 3, &e));
    assert_false(check_text(&in, share, share - 2, &e));
    assert_int_equal(e.code, ERR_BUSY);
    assert_string_equal(e.field, ENGINE_OWN_JOBS);
    assert_true(ENGINE_MAX_PROMPT <= all); /* a job that is alone is taken */
    assert_true(check_user(&in, 0, &e));   /* answers are counted by their number */
    inbox_fini(&in);
}

static void test_the_table_counts_what_a_user_has_waiting(void **state)
{
    struct job_table t = {0};
    struct job *jobs[3];
    for (int i = 0; i < 3; i++) {
        jobs[i] = make_job((uint64_t)i + 1, NULL);
        jobs[i]->params.user = i ? 5 : 6;
        jobs[i]->params.n_texts = i; /* three tokens, of none, one or two texts */
        assert_true(job_table_add(&t, jobs[i]));
    }
    assert_int_equal(job_table_waiting(&t, 5).own, 2);
    assert_int_equal(job_table_waiting(&t, 6).own, 1);
    assert_int_equal(job_table_waiting(&t, 7).own, 0);
    assert_int_equal(job_table_waiting(&t, 0).own, 0); /* of nobody in particular */
    assert_int_equal(job_table_waiting(&t, 5).own_text_tokens, 6);
    assert_int_equal(job_table_waiting(&t, 6).own_text_tokens, 0);
    assert_int_equal(job_table_waiting(&t, 6).text_tokens, 6);
    atomic_store(&jobs[1]->queued, false); /* it got a slot */
    assert_int_equal(job_table_waiting(&t, 5).own, 1);
    assert_int_equal(job_table_waiting(&t, 6).text_tokens, 3);
    for (int i = 0; i < 3; i++)
        job_unref(&jobs[i]);
    job_table_fini(&t);
}

static void *poke_later(void *context)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    inbox_wake(context);
    return NULL;
}

static void test_poke_ends_the_wait(void **state)
{
    struct inbox in;
    pthread_t thread;
    bool stop;
    inbox_init(&in);
    double start = clock_ms();
    assert_null(inbox_take(&in, 50, &stop));
    assert_true(clock_ms() - start >= 49);
    start = clock_ms();
    pthread_create(&thread, NULL, poke_later, &in);
    assert_null(inbox_take(&in, 5 * PATIENCE_MS, &stop));
    assert_true(clock_ms() - start < 4 * PATIENCE_MS); /* poked, and not when the time was over */
    assert_false(stop);
    pthread_join(thread, NULL);
    inbox_stop(&in);
    inbox_take(&in, 20000, &stop);
    assert_true(stop);
    inbox_fini(&in);
}

static void append(struct event_log *l, const char *text, bool last, bool expected)
{
    struct buf b = {0};
    buf_puts(&b, text);
    assert_int_equal(event_log_append(l, &b, last), expected);
    buf_fini(&b);
}

static void test_log_forgets_what_was_sent_unless_kept(void **state)
{
    struct event_log l;
    char out[16] = {0};
    bool end;
    event_log_init(&l, 10, false);
    append(&l, "12345678", false, true);
    append(&l, "9ab", false, false); /* over the limit: nothing of it is taken */
    assert_int_equal(event_log_read(&l, 0, out, 5, &end), 5);
    event_log_forget(&l, 8);
    append(&l, "9ab", false, true);
    assert_int_equal(event_log_read(&l, 8, out, 16, &end), 3);
    assert_memory_equal(out, "9ab", 3);
    assert_false(end);
    append(&l, "the last one", true, true); /* beyond the limit */
    assert_int_equal(event_log_read(&l, 11, out, 16, &end), 12);
    assert_true(end);
    event_log_fini(&l);
    event_log_init(&l, 10, true);
    append(&l, "12345678", false, true);
    event_log_forget(&l, 8);
    assert_int_equal(event_log_read(&l, 0, out, 16, &end), 8);
    event_log_fini(&l);
}

static void test_table_keeps_detached_jobs_for_a_while(void **state)
{
    struct job_table t = {0};
    struct job *plain = make_job(1, NULL), *kept = make_job(2, "k");
    job_table_add(&t, plain);
    job_table_add(&t, kept);
    assert_ptr_equal(job_table_find(&t, "k"), kept);
    assert_ptr_equal(job_table_find(&t, "#1"), plain);
    assert_null(job_table_find(&t, "#3"));
    assert_int_equal(job_table_running(&t), 2);
    atomic_store(&plain->over, true);
    atomic_store(&kept->over, true);
    job_table_sweep(&t, 1000);
    assert_null(job_table_find(&t, "#1"));
    assert_ptr_equal(job_table_find(&t, "k"), kept);
    job_table_sweep(&t, 1000 + JOB_TABLE_KEEP_MS - 1);
    assert_int_equal(job_table_kept(&t), 1);
    job_table_sweep(&t, 1000 + JOB_TABLE_KEEP_MS);
    assert_int_equal(job_table_kept(&t), 0);
    job_table_fini(&t);
    job_unref(&plain);
    job_unref(&kept);
}

static void test_table_keeps_no_more_bytes_than_allowed(void **state)
{
    enum { N = 5 };
    static char big[(16 << 20) + 1];
    struct job_table t = {0};
    struct job *jobs[N];
    memset(big, 'x', sizeof big - 1);
    for (int i = 0; i < N; i++) {
        char key[8] = {(char)('a' + i)};
        jobs[i] = make_job((uint64_t)i + 1, key);
        job_table_add(&t, jobs[i]);
        append(&jobs[i]->log, big, true, true);
        atomic_store(&jobs[i]->over, true);
        job_table_sweep(&t, 1000 + i);
    }
    assert_int_equal(job_table_kept(&t), 4); /* 64 MiB; the first to end went first */
    assert_null(job_table_find(&t, "a"));
    for (int i = 0; i < N; i++)
        job_unref(&jobs[i]);
    job_table_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loading_and_closed_refuse_with_the_reason),
        cmocka_unit_test(test_answers_are_cut_to_what_the_context_leaves),
        cmocka_unit_test(test_drafts_are_refused_where_there_are_none),
        cmocka_unit_test(test_more_experts_than_the_model_has_are_refused),
        cmocka_unit_test(test_queue_is_bounded_by_all_that_wait),
        cmocka_unit_test(test_one_user_has_a_share_of_the_queue),
        cmocka_unit_test(test_tokens_that_wait_are_bounded),
        cmocka_unit_test(test_the_table_counts_what_a_user_has_waiting),
        cmocka_unit_test(test_poke_ends_the_wait),
        cmocka_unit_test(test_log_forgets_what_was_sent_unless_kept),
        cmocka_unit_test(test_table_keeps_detached_jobs_for_a_while),
        cmocka_unit_test(test_table_keeps_no_more_bytes_than_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
