/* The scheduler of embeddings over a backend whose hidden rows are sums of tokens: who gets into
 * which step, and what becomes of jobs that are cancelled or fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/sched/embedder.h"
#include "engine/wire/message.h"

#define D 4
#define MOST_D 4200
#define MAX_ROWS 40
#define MAX_SEQUENCES 3

struct backend { /* one at a time */
    float hidden[MAX_ROWS][MOST_D];
    int32_t rows, sequences, steps;
    enum err_code fails;
    struct job *cancels; /* in the middle of the next step */
    const char *status;  /* NULL, or the page that a step looks at */
    int32_t seen_running, seen_waiting;
};

/* Each row: the sum of its text's tokens, then zeros. */
static bool step(struct backend *b, const struct step *s, struct step_row *rows, struct err *e)
{
    int32_t n = 0;
    b->rows = 0;
    b->sequences = s->n_sequences;
    b->steps++;
    assert_true(s->hidden && s->n_sequences <= MAX_SEQUENCES);
    if (b->cancels)
        atomic_store(&b->cancels->cancel, true);
    b->cancels = NULL;
    struct status_page page = {0};
    if (b->status && status_read(b->status, &page, e)) {
        b->seen_running = page.jobs_running;
        b->seen_waiting = page.jobs_waiting;
    }
    if (b->fails)
        return err_set(e, b->fails, "as the test wants");
    for (int32_t i = 0; i < s->n_sequences; i++) {
        const struct step_sequence *q = &s->sequences[i];
        float sum = 0;
        for (int32_t t = 0; t < q->n_tokens; t++)
            sum += (float)q->tokens[t];
        b->rows += q->n_tokens;
        for (int32_t t = 0; t < q->n_out; t++, n++) {
            memset(b->hidden[n], 0, D * sizeof *b->hidden[n]);
            b->hidden[n][0] = sum;
            b->hidden[n][1] = 1;
            rows[n] = (struct step_row){.hidden = b->hidden[n]};
        }
    }
    assert_true(b->rows <= MAX_ROWS);
    return true;
}

static void counters(const struct backend *b, struct backend_counters *c)
{
    *c = (struct backend_counters){.steps = (uint64_t)b->steps};
}

static const struct backend_ops ops = {.name = "sums", .step = step, .counters = counters};
static const struct model_plan plan = {.d_model = D, .encoder = true, .pooling = POOLING_CLS};

static const struct model_plan wide_plan = {
    .d_model = MOST_D, .encoder = true, .pooling = POOLING_CLS};

struct rig {
    struct backend backend;
    struct embedder *embedder;
};

static void open_with(struct rig *r, const struct model_plan *of, struct status_writer *status)
{
    struct err e = {0};
    *r = (struct rig){0};
    r->embedder = embedder_create(&(struct embedder_params){.ops = &ops,
                                                            .backend = &r->backend,
                                                            .plan = of,
                                                            .task = ENGINE_TASK_EMBED,
                                                            .n_blocks = 8,
                                                            .max_rows = MAX_ROWS,
                                                            .max_sequences = MAX_SEQUENCES,
                                                            .status = status},
                                  &e);
    assert_non_null(r->embedder);
}

static void open_rig(struct rig *r)
{
    open_with(r, &plan, NULL);
}

/* n texts of `length` tokens: text i is i + 1 again and again. The caller has one reference. */
static struct job *add(struct rig *r, uint64_t user, int32_t n, int32_t length)
{
    static uint64_t id;
    struct err e = {0};
    struct arena *a = arena_create(0);
    int32_t *prompt = arena_alloc(a, (size_t)(n * length) * sizeof *prompt),
            *ends = arena_alloc(a, (size_t)n * sizeof *ends),
            *firsts = arena_alloc(a, (size_t)n * sizeof *firsts);
    for (int32_t i = 0; i < n; i++) {
        for (int32_t t = 0; t < length; t++)
            prompt[i * length + t] = i + 1;
        ends[i] = (i + 1) * length;
        firsts[i] = 0;
    }
    struct job *j = job_create(++id, a,
                               &(struct engine_job_params){.prompt = prompt,
                                                           .n_prompt = n * length,
                                                           .user = user,
                                                           .task = ENGINE_TASK_EMBED,
                                                           .text_ends = ends,
                                                           .text_firsts = firsts,
                                                           .n_texts = n},
                               &e);
    assert_non_null(j);
    job_ref(j);
    embedder_add(r->embedder, j);
    return j;
}

struct result {
    bool over;
    enum engine_finish finish;
    struct err error;
    int32_t n_vectors, tokens;
    float ratio[64]; /* of each text's first two values: the sum of its tokens */
};

static struct result read_result(struct job *j)
{
    static char bytes[1 << 16];
    struct result r = {0};
    struct event_box box = {0};
    struct err e = {0};
    bool end = false;
    size_t n = event_log_read(&j->log, 0, bytes, sizeof bytes, &end), at = 0, used;
    struct frame f;
    while (frame_parse(bytes + at, n - at, &f, &used, &e) > 0) {
        struct engine_event ev;
        assert_true(message_get_event(&f, &ev, &box, &e));
        at += used;
        for (int32_t i = 0; ev.type == ENGINE_VECTORS && i < ev.n_vectors; i++, r.n_vectors++)
            r.ratio[ev.done + i] = ev.values[i * D] / ev.values[i * D + 1];
        if (ev.type == ENGINE_DONE)
            r.finish = ev.finish;
        if (ev.type == ENGINE_DONE)
            r.tokens = ev.usage.prompt_tokens;
        if (ev.type == ENGINE_FAILED)
            r.error = ev.error;
    }
    r.over = atomic_load(&j->over);
    event_box_fini(&box);
    return r;
}

static void test_every_text_gets_its_own_vector(void **state)
{
    struct rig r;
    struct err e = {0};
    open_rig(&r);
    struct job *j = add(&r, 1, 7, 5);
    while (!embedder_idle(r.embedder))
        assert_true(embedder_step(r.embedder, &e));
    const struct result got = read_result(j);
    assert_true(got.over && got.finish == ENGINE_STOP_EOS);
    assert_int_equal(got.n_vectors, 7);
    assert_int_equal(got.tokens, 35);
    for (int32_t i = 0; i < 7; i++)
        assert_true(got.ratio[i] > (float)(5 * (i + 1)) - 0.01f &&
                    got.ratio[i] < (float)(5 * (i + 1)) + 0.01f);
    assert_int_equal(r.backend.steps, 3); /* three texts in each */
    job_unref(&j);
    embedder_destroy(&r.embedder);
}

static void test_a_step_takes_no_more_rows_than_fit(void **state)
{
    struct rig r;
    struct err e = {0};
    open_rig(&r);
    struct job *j = add(&r, 1, 3, 30);
    assert_true(embedder_step(r.embedder, &e));
    assert_int_equal(r.backend.sequences, 1);
    while (!embedder_idle(r.embedder))
        assert_true(embedder_step(r.embedder, &e));
    assert_int_equal(read_result(j).n_vectors, 3);
    job_unref(&j);
    embedder_destroy(&r.embedder);
}

static void test_a_short_request_does_not_wait_for_another_user_s_long_one(void **state)
{
    struct rig r;
    struct err e = {0};
    open_rig(&r);
    struct job *large = add(&r, 1, 60, 10);
    assert_true(embedder_step(r.embedder, &e));
    struct job *small = add(&r, 2, 2, 10);
    assert_true(embedder_step(r.embedder, &e));
    assert_true(embedder_step(r.embedder, &e));
    assert_true(read_result(small).over);
    assert_false(read_result(large).over);
    embedder_destroy(&r.embedder);
    job_unref(&large);
    job_unref(&small);
}

static void test_a_cancelled_job_ends_between_two_steps(void **state)
{
    struct rig r;
    struct err e = {0};
    open_rig(&r);
    struct job *j = add(&r, 1, 9, 5);
    r.backend.cancels = j;
    assert_true(embedder_step(r.embedder, &e));
    assert_true(embedder_step(r.embedder, &e));
    const struct result got = read_result(j);
    assert_true(got.over && got.finish == ENGINE_CANCELLED);
    assert_int_equal(got.n_vectors, 3);
    assert_int_equal(got.tokens, 15);
    assert_true(embedder_idle(r.embedder));
    job_unref(&j);
    embedder_destroy(&r.embedder);
}

static void test_a_step_that_fails_ends_its_jobs_alone(void **state)
{
    struct rig r;
    struct err e = {0};
    open_rig(&r);
    struct job *first = add(&r, 1, 3, 5), *later = add(&r, 2, 1, 5);
    r.backend.fails = ERR_INPUT;
    assert_true(embedder_step(r.embedder, &e));
    assert_int_equal(read_result(first).error.code, ERR_INPUT);
    r.backend.fails = ERR_NONE;
    while (!embedder_idle(r.embedder))
        assert_true(embedder_step(r.embedder, &e));
    assert_true(read_result(first).over);
    assert_true(read_result(later).over);
    job_unref(&first);
    job_unref(&later);
    embedder_destroy(&r.embedder);
}

static void test_a_lost_device_ends_all_jobs(void **state)
{
    struct rig r;
    struct err e = {0};
    open_rig(&r);
    struct job *a = add(&r, 1, 9, 5), *b = add(&r, 2, 9, 5);
    r.backend.fails = ERR_DEVICE;
    assert_false(embedder_step(r.embedder, &e));
    assert_int_equal(read_result(a).error.code, ERR_DEVICE);
    assert_int_equal(read_result(b).error.code, ERR_DEVICE);
    job_unref(&a);
    job_unref(&b);
    embedder_destroy(&r.embedder);
}

static void test_all_vectors_of_the_largest_job_wait_for_their_reader(void **state)
{
    struct rig r;
    struct err e = {0};
    open_with(&r, &wide_plan, NULL);
    struct job *j = add(&r, 1, ENGINE_MAX_TEXTS, 1);
    while (!embedder_idle(r.embedder))
        assert_true(embedder_step(r.embedder, &e));
    assert_false(atomic_load(&j->cancel));
    assert_int_equal(j->n_texts_done, ENGINE_MAX_TEXTS);
    assert_true(event_log_bytes(&j->log) > ENGINE_MAX_TEXTS * MOST_D * sizeof(float));
    job_unref(&j);
    embedder_destroy(&r.embedder);
}

static void test_jobs_in_a_step_are_said_to_run(void **state)
{
    char path[] = "/tmp/sluice-embedder-XXXXXX";
    struct rig r;
    struct err e = {0};
    close(mkstemp(path));
    unlink(path);
    struct status_writer *status = status_create(path, &e);
    assert_non_null(status);
    open_with(&r, &plan, status);
    r.backend.status = path;
    status_begin(status)->jobs_accepted = 3;
    status_end(status);
    struct job *whole = add(&r, 1, 1, 5), *more = add(&r, 2, 5, 5), *later = add(&r, 3, 5, 36);
    assert_true(embedder_step(r.embedder, &e));
    assert_int_equal(r.backend.seen_running, 2); /* one of them has no text left for the next */
    assert_int_equal(r.backend.seen_waiting, 1);
    embedder_destroy(&r.embedder);
    status_close(&status);
    job_unref(&whole);
    job_unref(&more);
    job_unref(&later);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_text_gets_its_own_vector),
        cmocka_unit_test(test_a_step_takes_no_more_rows_than_fit),
        cmocka_unit_test(test_a_short_request_does_not_wait_for_another_user_s_long_one),
        cmocka_unit_test(test_a_cancelled_job_ends_between_two_steps),
        cmocka_unit_test(test_a_step_that_fails_ends_its_jobs_alone),
        cmocka_unit_test(test_a_lost_device_ends_all_jobs),
        cmocka_unit_test(test_all_vectors_of_the_largest_job_wait_for_their_reader),
        cmocka_unit_test(test_jobs_in_a_step_are_said_to_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
