/* A model's own next-token layer: found under the names of published files, and what it computes,
 * against an implementation of its own (tests/tools/pack_mtp_layer.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/backend/backend.h"
#include "engine/format/tensor_file.h"
#include "engine/model/model.h"
#include "tests/unit/support/expert_models.h"
#include "tests/unit/support/drafter_folder.h"

#define READ 10 /* rows of the golden that are given the model's hidden states; */
#define ROWS 12 /* the others go on from the layer's own */
#define WIDTH 512

static const char *const golden_models[] = {"tests/data/golden/glm4moe/hf",
                                            "tests/data/golden/qwen35moe/mlx-mixed3"};

struct golden {
    struct tensor_file file;
    const int32_t *ids;
    const float *given, *made;
};

static const void *values(const struct golden *g, const char *name, const char *dtype)
{
    struct err e = {0};
    const struct tensor *t = tensor_file_get(&g->file, name, dtype, &e);
    if (!t)
        fail_msg("%s", e.text);
    return t->data;
}

static void read_golden(struct golden *g)
{
    struct err e = {0};
    if (!tensor_file_open(&g->file, expert_model_path("tests/data/mtp/golden.safetensors"), &e))
        fail_msg("%s", e.text);
    g->ids = values(g, "ids", "I32");
    g->given = values(g, "given", "F32");
    g->made = values(g, "made", "F32");
}

static struct model *open_model(const char *path)
{
    struct err e = {0};
    struct model *m = model_open(path, &e);
    if (!m)
        fail_msg("%s", e.text);
    return m;
}

static struct backend *open_layer(const struct model *m, bool exact)
{
    struct err e = {0};
    const struct model *next = model_next(m, &e);
    if (!next)
        fail_msg("%s", e.text);
    struct backend *b = cpu_backend.open(
        model_plan(next),
        &(struct backend_params){
            .n_blocks = 2, .max_rows = 16, .max_sequences = 2, .n_threads = 2, .exact = exact},
        &e);
    if (!b)
        fail_msg("%s", e.text);
    return b;
}

/* Rows first .. first + n - 1, each with the hidden state it is given; their own go to `made`. */
static void step(struct backend *b, const struct golden *g, int32_t first, int32_t n,
                 const float *given, float *made)
{
    static const int32_t blocks[] = {1};
    struct err e = {0};
    struct step_row row;
    const struct step_sequence q = {.tokens = g->ids + first,
                                    .n_tokens = n,
                                    .start = first,
                                    .blocks = blocks,
                                    .state = -1,
                                    .n_out = 1,
                                    .want_logits = true,
                                    .given = given,
                                    .hidden = made,
                                    .n_hidden = n};
    if (!cpu_backend.step(b, &(struct step){.sequences = &q, .n_sequences = 1, .n_top = 4}, &row,
                          &e))
        fail_msg("%s", e.text);
    assert_true(row.logits[row.top_ids[0]] == row.top_logits[0]);
}

static void run(const struct model *m, const struct golden *g, bool exact, int32_t each,
                float made[ROWS * WIDTH])
{
    struct backend *b = open_layer(m, exact);
    for (int32_t i = 0; i < READ; i += each)
        step(b, g, i, each, g->given + (size_t)i * WIDTH, made + (size_t)i * WIDTH);
    for (int32_t i = READ; i < ROWS; i++) { /* in place, as drafts go on */
        float *at = made + (size_t)i * WIDTH;
        memcpy(at, at - WIDTH, WIDTH * sizeof *at);
        step(b, g, i, 1, at, at);
    }
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

static void test_rows_are_those_of_another_implementation(void **state)
{
    static float made[ROWS * WIDTH], single[ROWS * WIDTH];
    struct golden g;
    struct model *m = open_model(expert_model_path("engine/demo-model"));
    read_golden(&g);
    run(m, &g, true, READ, made);
    for (int32_t i = 0; i < ROWS; i++)
        assert_true(distance(made + i * WIDTH, g.made + i * WIDTH, WIDTH) < 1e-4);
    run(m, &g, false, READ, made);
    for (int32_t i = 0; i < ROWS; i++)
        assert_true(distance(made + i * WIDTH, g.made + i * WIDTH, WIDTH) < 0.05);
    run(m, &g, false, 1, single);
    assert_memory_equal(single, made, sizeof made);
    tensor_file_close(&g.file);
    model_close(&m);
}

/* One row's logits, of which `first` tokens were wanted. */
static struct step_row head_of(struct backend *b, const struct golden *g, int32_t first)
{
    static const int32_t blocks[] = {1};
    struct err e = {0};
    struct step_row row;
    const struct step_sequence q = {.tokens = g->ids,
                                    .n_tokens = 1,
                                    .blocks = blocks,
                                    .state = -1,
                                    .n_out = 1,
                                    .want_logits = true,
                                    .given = g->given};
    const struct step s = {.sequences = &q, .n_sequences = 1, .n_top = 40, .n_head = first};
    if (!cpu_backend.step(b, &s, &row, &e))
        fail_msg("%s", e.text);
    return row;
}

static void test_a_cut_head_has_the_first_logits_of_the_whole_one(void **state)
{
    static const int32_t first = 3000;
    static float whole[8192];
    struct golden g;
    struct model *m = open_model(expert_model_path("engine/demo-model"));
    struct backend *b = open_layer(m, false);
    double sum = 0;
    int32_t best = 0;
    read_golden(&g);
    memcpy(whole, head_of(b, &g, 0).logits, sizeof whole);
    for (int32_t i = 0; i < first; i++) {
        sum += exp((double)whole[i]);
        best = whole[i] > whole[best] ? i : best;
    }
    const struct step_row cut = head_of(b, &g, first);
    assert_memory_equal(cut.logits, whole, (size_t)first * sizeof *whole);
    for (int32_t i = first; i < 8192; i++)
        assert_true(isinf(cut.logits[i]) && cut.logits[i] < 0);
    assert_int_equal(cut.top_ids[0], best);
    for (int32_t i = 0; i < 40; i++)
        assert_in_range(cut.top_ids[i], 0, first - 1);
    assert_true(fabs((double)cut.log_sum_exp - log(sum)) < 1e-4);
    cpu_backend.close(&b);
    tensor_file_close(&g.file);
    model_close(&m);
}

static void test_it_counts_what_is_its_own(void **state)
{
    struct err e = {0};
    struct model *m = open_model(expert_model_path("engine/demo-model"));
    const struct model *next = model_next(m, &e);
    const struct model_plan *plan = model_plan(next), *whole = model_plan(m);
    assert_int_equal(plan->n_layer, 1);
    assert_int_equal(whole->n_layer, 8);
    assert_true(plan->embed.data == whole->embed.data && plan->head.data == whole->head.data);
    assert_in_range(model_stats(next)->weight_bytes, 600000, 700000);
    assert_int_equal(model_stats(next)->expert_bytes, 0);
    model_close(&m);
}

static void test_published_names_are_found(void **state)
{
    for (int i = 0; i < 2; i++) {
        struct drafter_folder f;
        struct err e = {0};
        drafter_folder_make_layer(&f, golden_models[i]);
        struct model *m = open_model(f.path);
        const struct model *next = model_next(m, &e);
        if (!next)
            fail_msg("%s", e.text);
        const struct model_plan *p = model_plan(next);
        assert_true(p->joint.fc.cols == 2 * p->d_model && p->layers[0].ffn == FFN_MOE);
        assert_true(p->layers[0].mixer == MIXER_ATTENTION && p->layers[0].moe.has_shared);
        struct backend *b = open_layer(m, false);
        cpu_backend.close(&b);
        model_close(&m);
        drafter_folder_remove(&f);
    }
}

/* The golden files have but one tensor of such a layer. */
static void test_one_that_is_not_whole_leaves_the_model_alone(void **state)
{
    static const struct {
        const char *path, *missing;
    } of[] = {{"tests/data/golden/glm4moe/hf", "model.layers.2.enorm, model.layers.2.hnorm, "
                                               "model.layers.2.shared_head.norm"},
              {"tests/data/golden/glm4moe/gguf", "blk.2.nextn.enorm, blk.2.nextn.hnorm, "
                                                 "blk.2.nextn.shared_head_norm, blk.2.attn_norm"}};
    for (int i = 0; i < 2; i++) {
        struct err e = {0};
        struct model *m = open_model(expert_model_path(of[i].path));
        assert_null(model_next(m, &e));
        assert_int_equal(e.code, ERR_FORMAT);
        if (!strstr(e.text, of[i].missing))
            fail_msg("%s", e.text);
        assert_int_equal(model_stats(m)->n_unused_tensors, 1);
        model_close(&m);
    }
    struct err e = {0};
    struct model *m = open_model(expert_model_path("tests/data/golden/qwen3moe/mlx-q4"));
    assert_null(model_next(m, &e));
    assert_int_equal(e.code, ERR_NOTFOUND);
    model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_those_of_another_implementation),
        cmocka_unit_test(test_a_cut_head_has_the_first_logits_of_the_whole_one),
        cmocka_unit_test(test_it_counts_what_is_its_own),
        cmocka_unit_test(test_published_names_are_found),
        cmocka_unit_test(test_one_that_is_not_whole_leaves_the_model_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
