/* Experts from a store against all weights in memory: the same bits for every model in the tree,
 * every budget, every way to read, few rows and many; and what a step does when a read fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_MODULE "test"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/cpu/open.h"
#include "engine/experts/streaming.h"
#include "tests/unit/support/expert_models.h"
#include "tests/unit/support/tiny_model.h"

#define TOKENS 75
#define ROWS 80
#define SEQUENCES 3

static struct err e;
static int32_t tokens[SEQUENCES][TOKENS];
static struct step_row rows[ROWS];

struct run { /* one model, in memory or streamed */
    struct model *model;
    struct streaming *streaming;
    const struct model_plan *plan;
    struct backend *backend;
};

static void open_run(struct run *r, const char *path, const struct streaming_params *p, int threads)
{
    *r = (struct run){.model = model_open(path, &e)};
    if (!r->model)
        fail_msg("%s: %s", path, e.text);
    r->plan = model_plan(r->model);
    if (p) {
        r->streaming = streaming_open(r->model, p, &e);
        if (!r->streaming)
            fail_msg("%s: %s", path, e.text);
        r->plan = streaming_plan(r->streaming);
    }
    struct backend_params params = {.n_blocks = 32,
                                    .n_states = SEQUENCES,
                                    .max_rows = ROWS,
                                    .n_threads = threads,
                                    .max_sequences = SEQUENCES,
                                    .experts = p ? streaming_cache(r->streaming) : NULL};
    r->backend = cpu_open_with(r->plan, &params, kernels_best(), &e);
    if (!r->backend)
        fail_msg("%s", e.text);
    for (int s = 0; s < SEQUENCES; s++)
        for (int t = 0; t < TOKENS; t++)
            tokens[s][t] = (s * 977 + t * t * 31 + t) % r->plan->n_vocab;
}

static void close_run(struct run *r)
{
    cpu_backend.close(&r->backend);
    streaming_close(&r->streaming);
    model_close(&r->model);
}

static bool step(struct run *r, const struct step_sequence *s, int n)
{
    struct step one = {.sequences = s, .n_sequences = n, .n_top = 1};
    return cpu_backend.step(r->backend, &one, rows, &e);
}

static struct step_sequence part(const struct run *r, int s, int from, int n)
{
    static int32_t blocks[SEQUENCES][4];
    for (int i = 0; i < 4; i++)
        blocks[s][i] = s * 4 + i;
    return (struct step_sequence){.tokens = tokens[s] + from,
                                  .n_tokens = n,
                                  .start = from,
                                  .blocks = blocks[s],
                                  .state = r->plan->n_recurrent ? s : -1,
                                  .n_out = 1,
                                  .n_experts = s, /* 0: all */
                                  .want_logits = true};
}

/* Prefill of one sequence, of another in small pieces, then both decode together: appends the
 * logits. */
static float *results(struct run *r, int *n)
{
    size_t vocab = (size_t)r->plan->n_vocab;
    float *all = malloc(64 * vocab * sizeof *all);
    *n = 0;
    struct step_sequence q[2] = {part(r, 0, 0, 60)};
    if (!step(r, q, 1))
        fail_msg("%s", e.text);
    memcpy(all + vocab * (size_t)(*n)++, rows[0].logits, vocab * sizeof *all);
    for (int at = 0; at < 60; at += 20) {
        q[0] = part(r, 1, at, 20);
        if (!step(r, q, 1))
            fail_msg("%s", e.text);
        memcpy(all + vocab * (size_t)(*n)++, rows[0].logits, vocab * sizeof *all);
    }
    for (int at = 60; at < 68; at++) {
        q[0] = part(r, 0, at, 1);
        q[1] = part(r, 1, at, 1);
        if (!step(r, q, at < 64 ? 1 : 2))
            fail_msg("%s", e.text);
        memcpy(all + vocab * (size_t)(*n)++, rows[0].logits, vocab * sizeof *all);
        if (at == 63) {
            q[0] = part(r, 1, 60, 4);
            if (!step(r, q, 1))
                fail_msg("%s", e.text);
        }
    }
    return all;
}

static uint64_t expert_bytes(const char *path)
{
    struct model *m = model_open(path, &e);
    uint64_t bytes = model_stats(m)->expert_bytes;
    model_close(&m);
    return bytes;
}

static void test_streamed_and_resident_give_the_same_bits(void **state)
{
    for (int i = 0; expert_models[i]; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s", expert_model_path(expert_models[i]));
        struct run r;
        int n, m;
        open_run(&r, path, NULL, 2);
        float *want = results(&r, &n);
        close_run(&r);
        uint64_t all = expert_bytes(path);
        const struct streaming_params ways[] = {
            {.cache_bytes = 1},
            {.cache_bytes = all / 2},
            {.cache_bytes = all * 8, .no_prefetch = true},
            {.cache_bytes = all / 3, .no_uring = true, .chunk = 4096, .depth = 3},
            {.cache_bytes = all / 3, .no_direct = true},
            {.cache_bytes = all / 2, .chunk = 4096, .depth = 1}, /* gate and up long before down */
        };
        for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
            open_run(&r, path, &ways[k], 1 + (int)k % 3);
            float *got = results(&r, &m);
            assert_int_equal(m, n);
            if (memcmp(got, want, (size_t)n * (size_t)r.plan->n_vocab * sizeof *got))
                fail_msg("%s, way %zu: other logits than with all weights in memory", path, k);
            struct expert_counters c;
            expert_cache_counters(streaming_cache(r.streaming), &c);
            assert_true(c.resident_bytes <= c.budget_bytes);
            assert_int_equal(c.asked, c.hits + c.late + c.misses);
            assert_int_equal(c.failures, 0);
            free(got);
            close_run(&r);
        }
        free(want);
    }
}

/* With room for all every expert is read once, and a second round reads nothing. */
static void test_a_resident_expert_is_not_read_again(void **state)
{
    struct run r;
    struct expert_counters before, after;
    int n;
    open_run(&r, expert_model_path("engine/demo-model"),
             &(struct streaming_params){.cache_bytes = 1u << 30}, 2);
    free(results(&r, &n));
    expert_cache_counters(streaming_cache(r.streaming), &before);
    assert_true(before.misses <= before.resident_experts);
    assert_int_equal(before.evictions, 0);
    assert_true(before.disk.bytes <= streaming_layout(r.streaming)->read_bytes);
    free(results(&r, &n));
    expert_cache_counters(streaming_cache(r.streaming), &after);
    assert_int_equal(after.misses, before.misses);
    assert_true(after.hits > before.hits);
    close_run(&r);
}

/* Nothing is read ahead for rows that end before the last layer's experts, be they many or few. */
static void test_rows_that_nobody_wants_read_nothing_ahead(void **state)
{
    struct run r;
    struct expert_counters c;
    open_run(&r, expert_model_path("engine/demo-model"),
             &(struct streaming_params){.cache_bytes = 1u << 30}, 2);
    for (int at = 0; at < TOKENS; at += at ? 15 : 60) {
        struct step_sequence q = part(&r, 0, at, at ? 15 : 60);
        q.n_out = 0;
        assert_true(step(&r, &q, 1));
    }
    expert_cache_counters(streaming_cache(r.streaming), &c);
    int32_t others = 0;
    for (int32_t i = 0; i < r.plan->n_layer - 1; i++)
        others += r.plan->layers[i].moe.n_expert;
    assert_true(c.resident_experts > (uint64_t)others - 8); /* so many rows want nearly all */
    assert_true(c.resident_experts <= (uint64_t)others);
    close_run(&r);
}

/* The page cache may lose everything: what a step reads of the weights is in our own memory. */
static void test_decoding_takes_no_major_fault(void **state)
{
    struct run r;
    struct rusage before, after;
    open_run(&r, expert_model_path("engine/demo-model"),
             &(struct streaming_params){.cache_bytes = 1u << 20}, 2);
    struct step_sequence q = part(&r, 0, 0, 60);
    assert_true(step(&r, &q, 1));
    for (int i = 0; model_file(r.model, i); i++) {
        int fd = open(model_file(r.model, i), O_RDONLY);
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
    getrusage(RUSAGE_SELF, &before);
    for (int at = 60; at < TOKENS; at++) {
        q = part(&r, 0, at, 1);
        assert_true(step(&r, &q, 1));
    }
    getrusage(RUSAGE_SELF, &after);
    assert_int_equal(after.ru_majflt, before.ru_majflt);
    close_run(&r);
}

static void test_a_changed_file_fails_the_step_and_not_the_engine(void **state)
{
    struct tiny t = {.experts = TINY_SEPARATE};
    char path[256];
    struct run r;
    struct expert_counters c;
    tiny_make(&t);
    tiny_write(&t, "model.safetensors", 0, 1);
    snprintf(path, sizeof path, "%s/model.safetensors", t.dir);
    open_run(&r, t.dir, &(struct streaming_params){.cache_bytes = 1, .no_prefetch = true}, 2);
    struct step_sequence q = part(&r, 0, 0, 30);
    assert_true(step(&r, &q, 1));
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    struct timespec times[2] = {st.st_atim, {.tv_sec = st.st_mtim.tv_sec + 7}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    q = part(&r, 1, 0, 40);
    memset(&e, 0, sizeof e);
    assert_false(step(&r, &q, 1));
    assert_int_equal(e.code, ERR_IO);
    assert_non_null(strstr(e.text, "expert"));
    assert_non_null(strstr(e.text, file_base_name(path)));
    assert_null(strstr(e.text, t.dir)); /* clients see it: the machine's folders are not theirs */
    expert_cache_counters(streaming_cache(r.streaming), &c);
    assert_true(c.failures > 0);
    times[1] = st.st_mtim; /* as it was: and it goes on */
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    if (!step(&r, &q, 1))
        fail_msg("%s", e.text);
    close_run(&r);
    tiny_remove(&t);
}

static void test_a_truncated_file_is_told(void **state)
{
    struct tiny t = {.experts = TINY_STACKED};
    char path[256];
    struct run r;
    tiny_make(&t);
    tiny_write(&t, "model.safetensors", 0, 1);
    snprintf(path, sizeof path, "%s/model.safetensors", t.dir);
    open_run(&r, t.dir, &(struct streaming_params){.cache_bytes = 1}, 1);
    assert_int_equal(truncate(path, 4096), 0);
    struct step_sequence q = part(&r, 0, 0, 40);
    for (int i = 0; i < 3; i++) { /* again and again, and nothing wrong is cached */
        memset(&e, 0, sizeof e);
        assert_false(step(&r, &q, 1));
        assert_int_equal(e.code, ERR_IO);
    }
    close_run(&r);
    tiny_remove(&t);
}

int main(void)
{
    log_set_level(LOG_WARN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streamed_and_resident_give_the_same_bits),
        cmocka_unit_test(test_a_resident_expert_is_not_read_again),
        cmocka_unit_test(test_rows_that_nobody_wants_read_nothing_ahead),
        cmocka_unit_test(test_decoding_takes_no_major_fault),
        cmocka_unit_test(test_a_changed_file_fails_the_step_and_not_the_engine),
        cmocka_unit_test(test_a_truncated_file_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
