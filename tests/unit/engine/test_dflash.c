/* A DFlash drafter: what a block of it computes, against an implementation of its own
 * (tests/tools/make_dflash_golden.py), and which ones are refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "engine/backend/backend.h"
#include "engine/draft/draft_load.h"
#include "engine/format/tensor_file.h"
#include "engine/model/model.h"
#include "tests/unit/support/drafter_folder.h"
#include "tests/unit/support/expert_models.h"

#define WIDTH 64
#define CONTEXT 9
#define BLOCK 5

static const char target[] = "tests/data/golden/glm4moe/hf";
static const struct dflash_shape shape = {.d = 64, .n_vocab = 64, .n_layer = 2, .block = BLOCK};

static struct model *open_drafter(const char *path)
{
    struct err e = {0};
    struct model *m = model_open_drafter(path, &e);
    if (!m)
        fail_msg("%s", e.text);
    return m;
}

static const float *values(const struct tensor_file *f, const char *name)
{
    struct err e = {0};
    const struct tensor *t = tensor_file_get(f, name, "F32", &e);
    if (!t)
        fail_msg("%s", e.text);
    return (const float *)(const void *)t->data;
}

static void step(struct backend *b, const struct step *s)
{
    struct err e = {0};
    struct step_row rows[BLOCK];
    if (!cpu_backend.step(b, s, rows, &e))
        fail_msg("%s", e.text);
}

/* The context in pieces, then the block. */
static void run(const struct model_plan *plan, const struct tensor_file *golden, bool exact,
                int32_t each, float made[BLOCK * WIDTH])
{
    static const int32_t blocks[] = {1, 0}, ids[CONTEXT] = {0, 1, 2, 3, 4};
    struct err e = {0};
    struct backend *b = cpu_backend.open(
        plan,
        &(struct backend_params){
            .n_blocks = 2, .max_rows = 16, .max_sequences = 1, .n_threads = 2, .exact = exact},
        &e);
    if (!b)
        fail_msg("%s", e.text);
    for (int32_t at = 0; at < CONTEXT; at += each) {
        const struct step_sequence q = {.tokens = ids,
                                        .n_tokens = each,
                                        .start = at,
                                        .blocks = blocks,
                                        .state = -1,
                                        .given =
                                            values(golden, "context") + (size_t)at * 2 * WIDTH};
        step(b, &(struct step){.sequences = &q, .n_sequences = 1, .n_top = 1, .context = true});
    }
    const struct step_sequence q = {.tokens = ids,
                                    .n_tokens = BLOCK,
                                    .start = CONTEXT,
                                    .blocks = blocks,
                                    .state = -1,
                                    .n_out = BLOCK - 1,
                                    .hidden = made,
                                    .n_hidden = BLOCK};
    step(b, &(struct step){.sequences = &q, .n_sequences = 1, .n_top = 1});
    cpu_backend.close(&b);
}

static double distance(const float *a, const float *b, size_t n)
{
    double sum = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += (double)b[i] * b[i];
    }
    return sqrt(sum / norm);
}

static void test_a_block_is_that_of_another_implementation(void **state)
{
    float made[BLOCK * WIDTH], pieces[BLOCK * WIDTH];
    struct drafter_folder f;
    struct tensor_file golden = {0};
    struct err e = {0};
    drafter_folder_make_dflash(&f, &shape);
    struct model *m = open_drafter(f.path);
    if (!tensor_file_open(&golden, expert_model_path("tests/data/dflash/golden.safetensors"), &e))
        fail_msg("%s", e.text);
    struct model_plan plan = *model_plan(m); /* with the block's embeddings in place of a model's */
    plan.embed = (struct weight){.type = WEIGHT_F32,
                                 .n_matrix = 1,
                                 .rows = BLOCK,
                                 .cols = WIDTH,
                                 .data = values(&golden, "block"),
                                 .row_bytes = WIDTH * 4,
                                 .matrix_bytes = BLOCK * WIDTH * 4};
    plan.head = plan.embed;
    plan.n_vocab = BLOCK;
    run(&plan, &golden, true, CONTEXT, made);
    assert_true(distance(made, values(&golden, "made"), BLOCK * WIDTH) < 1e-5);
    run(&plan, &golden, false, CONTEXT, made);
    assert_true(distance(made, values(&golden, "made"), BLOCK * WIDTH) < 0.03);
    run(&plan, &golden, false, 3, pieces);
    assert_memory_equal(pieces, made, sizeof made);
    tensor_file_close(&golden);
    model_close(&m);
    drafter_folder_remove(&f);
}

static void test_it_answers_nobody_alone(void **state)
{
    struct drafter_folder f;
    struct err e = {0};
    drafter_folder_make_dflash(&f, &shape);
    assert_null(model_open(f.path, &e));
    assert_int_equal(e.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(e.text, "--draft-model"));
    drafter_folder_remove(&f);
}

static bool plan_for(struct draft_load *l, const struct model *m, const struct dflash_shape *s,
                     struct err *e)
{
    struct drafter_folder f;
    *e = (struct err){0};
    drafter_folder_make_dflash(&f, s);
    const bool planned = draft_load_plan(l,
                                         &(struct draft_load_params){.path = f.path,
                                                                     .target = target,
                                                                     .target_model = m,
                                                                     .n_vocab = 64,
                                                                     .slots = 4,
                                                                     .backend = "cpu",
                                                                     .memory = {.n_threads = 1}},
                                         e);
    drafter_folder_remove(&f);
    return planned;
}

static void test_one_of_another_model_is_refused(void **state)
{
    static const struct {
        struct dflash_shape shape;
        const char *words;
    } of[] = {
        {{.d = 64, .n_vocab = 96, .n_layer = 2, .block = 5}, "96 tokens"},
        {{.d = 128, .n_vocab = 64, .n_layer = 2, .block = 5}, "128 dimensions"},
        {{.d = 64, .n_vocab = 64, .n_layer = 7, .block = 5}, "7 layers"},
        {{.d = 64, .n_vocab = 64, .n_layer = 2, .block = 1}, "block_size"},
        {{.d = 64, .n_vocab = 64, .n_layer = 2, .block = 5, .architecture = "DFlash2DraftModel"},
         "DFlash2DraftModel"}};
    struct draft_load l;
    struct err e = {0};
    struct model *m = model_open(expert_model_path(target), &e);
    assert_non_null(m);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        assert_false(plan_for(&l, m, &of[i].shape, &e));
        assert_string_equal(e.field, "draft-model");
        if (!strstr(e.text, of[i].words))
            fail_msg("'%s' says nothing of '%s'", e.text, of[i].words);
        draft_load_close(&l);
    }
    if (!plan_for(&l, m, &shape, &e))
        fail_msg("%s", e.text);
    assert_int_equal(draft_load_by(&l), ENGINE_SPECULATE_DFLASH);
    assert_int_equal(l.sizes.block, BLOCK);
    assert_true(draft_load_host_bytes(&l) > model_stats(l.model)->weight_bytes);
    draft_load_close(&l);
    model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block_is_that_of_another_implementation),
        cmocka_unit_test(test_it_answers_nobody_alone),
        cmocka_unit_test(test_one_of_another_model_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
