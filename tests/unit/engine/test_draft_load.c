/* Which draft models are taken: those of the same vocabulary; and that they take the memory that
 * was planned, for which the other model's plan leaves room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/draft/draft_load.h"
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
    if (!draft_load_open(&l, &e))
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_vocabulary_is_refused),
        cmocka_unit_test(test_the_folder_in_the_model_needs_no_tokenizer),
        cmocka_unit_test(test_it_takes_what_was_planned),
        cmocka_unit_test(test_the_other_plan_leaves_room_for_it),
    };
    return cmocka_run_group_tests(tests, open_demo, close_demo);
}
