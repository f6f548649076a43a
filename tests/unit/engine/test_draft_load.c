/* Which draft models are taken: those of the same vocabulary; and that they take the memory that
 * was planned, for which the other model's plan leaves room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/draft/draft_plan.h"
#include "tests/unit/support/expert_models.h"

static char demo[4096], folder[64];
static struct vocab *vocab;
static struct model *model;

static int open_demo(void **state)
{
    struct err e = {0};
    snprintf(demo, sizeof demo, "%s", expert_model_path("engine/demo-model"));
    char *whole = realpath(demo, NULL);
    if (whole)
        snprintf(demo, sizeof demo, "%s", whole);
    free(whole);
    vocab = vocab_load(demo, NULL, &e);
    model = model_open(demo, &e);
    snprintf(folder, sizeof folder, "/tmp/test-draft-load-XXXXXX");
    return vocab && model && mkdtemp(folder) ? 0 : -1;
}

static void path_in(char *out, size_t size, const char *name)
{
    snprintf(out, size, "%s/%s", folder, name);
}

static void drop(const char *name)
{
    char path[128];
    path_in(path, sizeof path, name);
    unlink(path);
}

static int close_demo(void **state)
{
    model_close(&model);
    vocab_close(&vocab);
    drop("config.json");
    drop("model.safetensors");
    drop("tokenizer.json");
    return rmdir(folder);
}

/* The folder shows this model's weights. */
static void show(const char *from)
{
    static const char *const names[] = {"config.json", "model.safetensors"};
    for (int i = 0; i < 2; i++) {
        char path[128], target[4400];
        path_in(path, sizeof path, names[i]);
        snprintf(target, sizeof target, "%s/%s", from, names[i]);
        unlink(path);
        assert_int_equal(symlink(target, path), 0);
    }
}

/* The demo's tokenizer with each `from` replaced; of the same length. */
static void write_tokenizer(const char *from, const char *to)
{
    char path[4400];
    struct buf text = {0};
    struct err e = {0};
    snprintf(path, sizeof path, "%s/tokenizer.json", demo);
    assert_true(file_read(path, 16 << 20, &text, &e));
    int n = 0;
    for (char *at = text.data; (at = strstr(at, from)) != NULL; at += strlen(from), n++)
        memcpy(at, to, strlen(to));
    assert_true(n > 0);
    path_in(path, sizeof path, "tokenizer.json");
    assert_true(file_write_atomic(path, text.data, text.len, 0600, &e));
    buf_fini(&text);
}

static bool plan(struct draft_load *l, const char *path, struct err *e)
{
    *e = (struct err){0};
    return draft_load_plan(l,
                           &(struct draft_load_params){.path = path,
                                                       .target = demo,
                                                       .vocab = vocab,
                                                       .n_vocab = model_plan(model)->n_vocab,
                                                       .slots = 16,
                                                       .backend = "cpu",
                                                       .memory = {.n_threads = 1}},
                           e);
}

static void assert_refused(const char *path, const char *words)
{
    struct draft_load l;
    struct err e;
    assert_false(plan(&l, path, &e));
    draft_load_close(&l);
    assert_int_equal(e.code, ERR_UNSUPPORTED);
    assert_string_equal(e.field, "draft-model");
    if (!strstr(e.text, words))
        fail_msg("'%s' says nothing of '%s'", e.text, words);
}

static void test_another_vocabulary_is_refused(void **state)
{
    char own[4200];
    snprintf(own, sizeof own, "%s/draft", demo);
    show(own);
    drop("tokenizer.json");
    assert_refused(folder, "can't be told");
    write_tokenizer("<|im_start|>", "<|im_begin|>");
    assert_refused(folder, "<|im_begin|>");
    write_tokenizer("<|im_start|>", "<|im_start|>");
    struct draft_load l;
    struct err e;
    if (!plan(&l, folder, &e))
        fail_msg("%s", e.text);
    draft_load_close(&l);
}

static void test_the_folder_in_the_model_needs_no_tokenizer(void **state)
{
    char found[4200];
    struct draft_load l;
    struct err e;
    assert_true(draft_load_find(demo, found, sizeof found));
    assert_false(draft_load_find(folder, found, sizeof found));
    assert_true(draft_load_find(demo, found, sizeof found));
    if (!plan(&l, found, &e))
        fail_msg("%s", e.text);
    draft_load_close(&l);
}

static void test_it_takes_what_was_planned(void **state)
{
    char found[4200];
    struct draft_load l;
    struct err e;
    struct backend_memory taken;
    struct memory_request other = {0};
    assert_true(draft_load_find(demo, found, sizeof found) && plan(&l, found, &e));
    draft_load_reserve(&l, &other);
    assert_true(other.beside_host > model_stats(l.model)->weight_bytes);
    if (!draft_load_open(&l, NULL, &e))
        fail_msg("%s", e.text);
    l.memory.ops->memory(l.memory.opened, &taken);
    assert_true(memory_plan_check(&l.memory.plan, &taken, &e));
    assert_int_equal(other.beside_host, taken.host);
    assert_int_equal(other.beside_device, taken.device);
    assert_int_equal(draft_model_counts(l.draft).seats, DRAFT_SEATS);
    draft_load_close(&l);
}

static void test_the_other_plan_leaves_room_for_it(void **state)
{
    struct memory_load alone, beside;
    struct memory_request w = {.ram_budget = (int64_t)256 << 20, .size = {.slots = 16}};
    struct err e = {0};
    assert_true(memory_load_plan(&alone, model, "cpu", &w, &e));
    w.beside_host = (uint64_t)40 << 20;
    assert_true(memory_load_plan(&beside, model, "cpu", &w, &e));
    assert_int_equal(alone.plan.ram_limit - beside.plan.ram_limit, w.beside_host);
    w.beside_host = (uint64_t)150 << 20;
    assert_false(memory_load_plan(&beside, model, "cpu", &w, &e) &&
                 beside.plan.strategy == STRATEGY_CPU_ONLY &&
                 beside.plan.host > alone.plan.ram_limit - w.beside_host);
}

static bool plan_both(struct draft_load *l, struct memory_load *m, const char *option,
                      const struct memory_request *w, struct err *e)
{
    *e = (struct err){0};
    return draft_plan_make(
        l, m,
        &(struct draft_plan_params){.model = model,
                                    .backend = "cpu",
                                    .speculate = ENGINE_SPECULATE_AUTO,
                                    .option = option,
                                    .load = {.target = demo,
                                             .vocab = vocab,
                                             .n_vocab = model_plan(model)->n_vocab,
                                             .slots = 16,
                                             .backend = "cpu",
                                             .memory = *w}},
        w, e);
}

/* The least RAM that the model runs in as it would with more. */
static int64_t least_ram(void)
{
    struct memory_load m;
    struct err e = {0};
    int64_t least = 0, most = (int64_t)256 << 20;
    while (most - least > 1 << 20) {
        const int64_t middle = (least + most) / 2;
        struct memory_request w = {.ram_budget = middle, .n_threads = 1, .size = {.slots = 16}};
        const bool fits =
            memory_load_plan(&m, model, "cpu", &w, &e) && m.plan.strategy == STRATEGY_CPU_ONLY;
        *(fits ? &most : &least) = middle;
    }
    return most;
}

static void test_one_that_was_only_found_takes_nothing_that_the_model_needs(void **state)
{
    char own[4200];
    struct draft_load l;
    struct memory_load m;
    struct err e;
    struct memory_request w = {.ram_budget = least_ram(), .n_threads = 1, .size = {.slots = 16}};
    snprintf(own, sizeof own, "%s/draft", demo);
    assert_true(plan_both(&l, &m, "auto", &w, &e));
    assert_null(l.model);
    assert_non_null(strstr(l.left_out, "no memory"));
    assert_int_equal(m.plan.strategy, STRATEGY_CPU_ONLY);
    draft_load_close(&l);
    const bool planned = plan_both(&l, &m, own, &w, &e); /* named: it is there, or it is refused */
    assert_true(!planned || (l.model && m.plan.strategy != STRATEGY_CPU_ONLY));
    draft_load_close(&l);
    w.ram_budget = (int64_t)512 << 20;
    assert_true(plan_both(&l, &m, "auto", &w, &e));
    assert_non_null(l.model);
    assert_true(m.input.request.beside_host > 0);
    draft_load_close(&l);
}

/* Between planning and opening others may take the memory. */
static void test_memory_that_is_gone_by_the_time_stops_only_who_was_named(void **state)
{
    char own[4200];
    struct memory_request w = {.n_threads = 1, .size = {.slots = 16}};
    snprintf(own, sizeof own, "%s/draft", demo);
    for (int named = 0; named < 2; named++) {
        struct draft_load l;
        struct memory_load m;
        struct err e;
        assert_true(plan_both(&l, &m, named ? own : "auto", &w, &e));
        assert_int_equal(l.found, !named);
        l.memory.plan.size.max_rows = 0; /* stands for what the system refuses */
        const bool open = draft_load_open(&l, NULL, &e);
        assert_int_equal(open, !named);
        assert_null(l.draft);
        if (named)
            assert_string_equal(e.field, "draft-model");
        else
            assert_true(!l.model && strstr(l.left_out, "left out"));
        draft_load_close(&l);
    }
}

static int count_threads(void)
{
    struct dirent **list = NULL;
    int n = scandir("/proc/self/task", &list, NULL, NULL);
    for (int i = 0; i < n; i++)
        free(list[i]);
    free(list);
    return n;
}

/* Threads of two models that wait for their next step would spin against each other. */
static void test_both_models_are_computed_by_the_same_threads(void **state)
{
    struct draft_load l;
    struct memory_load m;
    struct err e;
    struct memory_request w = {.n_threads = 3, .size = {.slots = 16}};
    assert_true(plan_both(&l, &m, "auto", &w, &e));
    assert_true(memory_load_open(&m, NULL, &e));
    const int before = count_threads();
    assert_true(draft_load_open(&l, m.ops->team(m.opened), &e));
    assert_non_null(l.draft);
    assert_int_equal(count_threads(), before);
    assert_int_equal(l.memory.ops->threads(l.memory.opened), 3);
    draft_load_close(&l);
    assert_int_equal(count_threads(), before);
    memory_load_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_vocabulary_is_refused),
        cmocka_unit_test(test_the_folder_in_the_model_needs_no_tokenizer),
        cmocka_unit_test(test_it_takes_what_was_planned),
        cmocka_unit_test(test_the_other_plan_leaves_room_for_it),
        cmocka_unit_test(test_one_that_was_only_found_takes_nothing_that_the_model_needs),
        cmocka_unit_test(test_memory_that_is_gone_by_the_time_stops_only_who_was_named),
        cmocka_unit_test(test_both_models_are_computed_by_the_same_threads),
    };
    return cmocka_run_group_tests(tests, open_demo, close_demo);
}
