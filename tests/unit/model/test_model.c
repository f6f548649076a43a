/* Opening a model: every layout gives the same weights, and what is wrong is refused by name before
 * anything runs. */
#include "engine/model/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/model/config.h"
#include "tests/unit/support/tiny_model.h"

static struct model *opened(const struct tiny *t)
{
    struct err e = {0};
    struct model *m = model_open(t->dir, &e);
    if (!m)
        fail_msg("%s", e.text);
    return m;
}

static void expect_refusal(struct tiny *t, enum err_code code, const char *says)
{
    struct err e = {0};
    struct model *m = model_open(t->dir, &e);
    assert_null(m);
    if (e.code != code || !strstr(e.text, says))
        fail_msg("'%s' (%s), want '%s' (%s)", e.text, err_code_name(e.code), says,
                 err_code_name(code));
    tiny_remove(t);
}

/* A whole model in one file, then refused. */
static void expect_whole_refused(struct tiny t, enum err_code code, const char *says)
{
    tiny_make(&t);
    tiny_write(&t, "model.safetensors", 0, 1);
    expect_refusal(&t, code, says);
}

static void test_facts_are_counted(void **state)
{
    struct tiny t = {0};
    tiny_make(&t);
    tiny_write(&t, "model.safetensors", 0, 1);
    struct model *m = opened(&t);
    const struct model_plan *p = model_plan(m);
    const struct model_stats *f = model_stats(m);
    uint64_t attention = 32 * 16 * (4 + 2 + 2 + 4), router = 3 * 32, expert = 3 * 24 * 32,
             norms = 2 * 32 + 2 * 16;
    uint64_t layer = attention + router + 3 * expert + norms,
             active = attention + router + 2 * expert + norms;
    assert_int_equal(f->parameters, 2 * layer + 40 * 32 + 32); /* the head is the embedding */
    assert_int_equal(f->active_parameters, 2 * active + 40 * 32 + 32);
    assert_int_equal(f->expert_bytes, 2 * 3 * expert * 4);
    assert_int_equal(f->kv_bytes_per_token, 2 * 2 * 2 * 16 * 2);
    assert_int_equal(f->n_unused_tensors, 0);
    assert_null(model_unused(m, 0));
    assert_int_equal(p->n_eos, 1); /* 99 is outside the vocabulary */
    assert_int_equal(p->eos[0], 3);
    assert_true(p->layers[1].kv_index == 1 && p->layers[1].state_index == -1);
    model_close(&m);
    assert_null(m);
    tiny_remove(&t);
}

static void expect_same(const struct weight *a, const struct weight *b)
{
    float x[64], y[64];
    assert_int_equal(a->n_matrix, b->n_matrix);
    for (int32_t m = 0; m < a->n_matrix; m++)
        for (int32_t r = 0; r < a->rows; r++) {
            weight_row_f32(a, m, r, x);
            weight_row_f32(b, m, r, y);
            assert_memory_equal(x, y, (size_t)a->cols * sizeof *x);
        }
}

static void check_layout(enum tiny_experts layout)
{
    struct tiny stacked = {0}, other = {.experts = layout};
    tiny_make(&stacked);
    tiny_make(&other);
    tiny_write(&stacked, "model.safetensors", 0, 1);
    tiny_write(&other, "model.safetensors", 0, 1);
    struct model *a = opened(&stacked), *b = opened(&other);
    for (int i = 0; i < 2; i++) {
        const struct moe_plan *x = &model_plan(a)->layers[i].moe,
                              *y = &model_plan(b)->layers[i].moe;
        expect_same(&x->gate, &y->gate);
        expect_same(&x->up, &y->up);
        expect_same(&x->down, &y->down);
    }
    assert_int_equal(model_stats(b)->n_unused_tensors, 0);
    assert_int_equal(model_stats(a)->weight_bytes, model_stats(b)->weight_bytes);
    model_close(&a);
    model_close(&b);
    tiny_remove(&stacked);
    tiny_remove(&other);
}

static void test_expert_layouts_give_the_same_weights(void **state)
{
    check_layout(TINY_SEPARATE);
    check_layout(TINY_FUSED);
}

static void test_shards_with_index_are_read(void **state)
{
    static const char *const names[] = {"odd.safetensors", "odder-7.safetensors", "z.safetensors"};
    struct tiny t = {0};
    tiny_make(&t);
    for (int i = 0; i < 3; i++)
        tiny_write(&t, names[i], i, 3);
    tiny_index(&t, names, 3);
    tiny_write(&t, "adapter.safetensors", 0, 2); /* a stray file with tensors of the same names */
    struct model *m = opened(&t);
    assert_int_equal(model_stats(m)->n_files, 3);
    assert_string_equal(model_unused(m, 0), "adapter.safetensors (not a part of this model)");
    model_close(&m);
    char path[128];
    snprintf(path, sizeof path, "%s/odder-7.safetensors", t.dir);
    unlink(path);
    expect_refusal(&t, ERR_FORMAT, "odder-7.safetensors is not in the folder");
}

static void test_shards_without_index_are_read(void **state)
{
    struct tiny t = {0};
    tiny_make(&t);
    tiny_write(&t, "weights.a.safetensors", 0, 2);
    tiny_write(&t, "weights.b.safetensors", 1, 2);
    struct model *m = opened(&t);
    assert_int_equal(model_stats(m)->n_files, 2);
    model_close(&m);
    tiny_write(&t, "copy.safetensors", 0, 2); /* which one counts can't be known */
    expect_refusal(&t, ERR_FORMAT, "is there twice");
}

static void test_numbered_shards_must_be_whole(void **state)
{
    struct tiny t = {0};
    tiny_make(&t);
    tiny_write(&t, "model-00001-of-00002.safetensors", 0, 2);
    tiny_write(&t, "model-00002-of-00002.safetensors", 1, 2);
    tiny_write(&t, "stray.safetensors", 0, 2);
    struct model *m = opened(&t);
    assert_string_equal(model_unused(m, 0), "stray.safetensors (not a part of this model)");
    model_close(&m);
    char path[128];
    snprintf(path, sizeof path, "%s/model-00002-of-00002.safetensors", t.dir);
    unlink(path);
    expect_refusal(&t, ERR_FORMAT, "shard 2 of 2 is missing");
}

static void test_single_file_ignores_others(void **state)
{
    struct tiny t = {0};
    tiny_make(&t);
    tiny_write(&t, "model.safetensors", 0, 1);
    tiny_write(&t, "lora.safetensors", 0, 3);
    struct model *m = opened(&t);
    assert_string_equal(model_unused(m, 0), "lora.safetensors (not a part of this model)");
    model_close(&m);
    tiny_remove(&t);
}

static void test_missing_tensors_are_named(void **state)
{
    expect_whole_refused((struct tiny){.without = "layers.1.self_attn.k_proj"}, ERR_FORMAT,
                         "1 tensor missing: model.layers.1.self_attn.k_proj");
    expect_whole_refused((struct tiny){.without = "q_norm"}, ERR_FORMAT,
                         "2 tensors missing: model.layers.0.self_attn.q_norm");
    expect_whole_refused((struct tiny){.without = "experts.1.up_proj", .experts = TINY_SEPARATE},
                         ERR_FORMAT, "model.layers.0.mlp.experts.1.up_proj");
}

static void test_wrong_shapes_are_named(void **state)
{
    expect_whole_refused((struct tiny){.widen = "v_proj"}, ERR_FORMAT,
                         "v_proj.weight is F32 [33, 32], want [32, 32]");
    expect_whole_refused((struct tiny){.widen = "switch_mlp.down"}, ERR_FORMAT,
                         "[3, 33, 24], want [3, 32, 24]");
    expect_whole_refused((struct tiny){.widen = "layers.1.input_layernorm"}, ERR_FORMAT,
                         "want 32 values");
}

static void test_values_must_be_finite(void **state)
{
    expect_whole_refused(
        (struct tiny){.spoil = "layers.1.mlp.switch_mlp.up", .spoil_at = 1000, .spoil_value = NAN},
        ERR_FORMAT, "not finite");
    expect_whole_refused(
        (struct tiny){.spoil = "model.norm", .spoil_at = 31, .spoil_value = INFINITY}, ERR_FORMAT,
        "model.norm.weight: value 31 is not finite");
}

static void test_truncated_file_is_refused(void **state)
{
    struct tiny t = {0};
    char path[128];
    tiny_make(&t);
    tiny_write(&t, "model.safetensors", 0, 1);
    snprintf(path, sizeof path, "%s/model.safetensors", t.dir);
    assert_int_equal(truncate(path, 20000), 0);
    expect_refusal(&t, ERR_FORMAT, "model.safetensors: tensor");
}

static void test_configurations_are_checked(void **state)
{
    static const struct {
        const char *more, *says;
        enum err_code code;
    } cases[] = {
        {", \"quantization_config\": {\"quant_method\": \"awq\"}", "'awq' are not read",
         ERR_UNSUPPORTED},
        {", \"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2}",
         "'dynamic' is not known", ERR_UNSUPPORTED},
        {", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 0}", "factor 0", ERR_FORMAT},
        {", \"use_sliding_window\": true, \"sliding_window\": -1", "sliding_window is -1",
         ERR_FORMAT},
        {", \"decoder_sparse_step\": \"two\"", "not a number", ERR_FORMAT},
        {", \"mlp_only_layers\": 1", "not a list", ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tiny plain = {0};
        tiny_make(&plain);
        tiny_write(&plain, "model.safetensors", 0, 1);
        struct tiny other = {.config_more = cases[i].more};
        tiny_make(&other);
        char from[128], to[128];
        snprintf(from, sizeof from, "%s/model.safetensors", plain.dir);
        snprintf(to, sizeof to, "%s/model.safetensors", other.dir);
        assert_int_equal(rename(from, to), 0);
        expect_refusal(&other, cases[i].code, cases[i].says);
        tiny_remove(&plain);
    }
}

static void expect_text_refused(const char *config, enum err_code code, const char *says)
{
    struct tiny t = {0};
    tiny_make(&t);
    tiny_write(&t, "model.safetensors", 0, 1);
    tiny_text(&t, "config.json", config);
    expect_refusal(&t, code, says);
}

static void test_damaged_configurations_are_refused(void **state)
{
    expect_text_refused("{", ERR_FORMAT, "config.json");
    expect_text_refused("[]", ERR_FORMAT, "not an object");
    expect_text_refused("{}", ERR_UNSUPPORTED, "architecture '(none)'");
    expect_text_refused("{\"model_type\": \"mamba\"}", ERR_UNSUPPORTED,
                        "architecture 'mamba' is not known here; known: qwen3_moe");
    expect_text_refused("{\"model_type\": \"qwen3_moe\"}", ERR_FORMAT,
                        "num_hidden_layers is missing");
    expect_text_refused("{\"model_type\": \"qwen3_moe\", \"num_hidden_layers\": 1e30}", ERR_FORMAT,
                        "num_hidden_layers is 1e+30");
    expect_text_refused("{\"model_type\": \"qwen3_moe\", \"num_hidden_layers\": 1.5}", ERR_FORMAT,
                        "whole number");
}

/* Fewer experts per token: fewer active bytes and another fingerprint, since it is another
 * function. */
static void test_experts_per_token_can_be_limited(void **state)
{
    struct tiny t = {0};
    struct err e = {0};
    tiny_make(&t);
    tiny_write(&t, "model.safetensors", 0, 1);
    struct model *m = opened(&t);
    const struct moe_plan *moe = &model_plan(m)->layers[0].moe;
    int32_t own = moe->n_used, layers = model_plan(m)->n_layer;
    struct model_stats before = *model_stats(m);
    uint64_t fingerprint = model_plan(m)->fingerprint;
    uint64_t one = weight_matrix_bytes(&moe->gate) + weight_matrix_bytes(&moe->up) +
                   weight_matrix_bytes(&moe->down);
    assert_true(model_limit_experts(m, own + 1, &e));
    assert_int_equal(moe->n_used, own);
    assert_int_equal(model_plan(m)->fingerprint, fingerprint);
    assert_false(model_limit_experts(m, 0, &e));
    assert_int_equal(e.code, ERR_INPUT);
    assert_true(model_limit_experts(m, own - 1, &e));
    assert_int_equal(moe->n_used, own - 1);
    assert_int_equal(model_stats(m)->active_bytes, before.active_bytes - one * (uint64_t)layers);
    assert_int_equal(model_stats(m)->weight_bytes, before.weight_bytes);
    assert_true(model_plan(m)->fingerprint != fingerprint);
    model_close(&m);
    tiny_remove(&t);
}

static void test_fingerprint_knows_weights_apart(void **state)
{
    struct tiny a = {0},
                b = {.spoil = "layers.1.self_attn.v_proj", .spoil_at = 0, .spoil_value = 0.25f};
    tiny_make(&a);
    tiny_make(&b);
    tiny_write(&a, "model.safetensors", 0, 1);
    tiny_write(&b, "model.safetensors", 0, 1);
    struct model *x = opened(&a), *again = opened(&a), *y = opened(&b);
    assert_int_equal(model_plan(x)->fingerprint, model_plan(again)->fingerprint);
    assert_int_not_equal(model_plan(x)->fingerprint, model_plan(y)->fingerprint);
    model_close(&x);
    model_close(&again);
    model_close(&y);
    tiny_remove(&a);
    tiny_remove(&b);
}

static void test_quantization_overrides_are_affine_without_mode(void **state)
{
    struct tiny t = {
        .config_more = ", \"quantization\": {\"group_size\": 32, \"bits\": 4, \"mode\": \"mxfp4\","
                       " \"a.b\": {\"group_size\": 64, \"bits\": 8}, \"a.c\": false,"
                       " \"a.d\": {\"bits\": 7}, \"a.e\": {\"mode\": \"nvfp4\"}}"};
    char path[128];
    struct err e = {0};
    struct config c;
    struct quantization q;
    tiny_make(&t);
    snprintf(path, sizeof path, "%s/config.json", t.dir);
    assert_true(config_open(&c, path, &e));
    assert_true(config_quantization(&c, "other", &q, &e) && q.mode == QUANT_MXFP4 && q.group == 32);
    assert_true(config_quantization(&c, "a.b", &q, &e) && q.mode == QUANT_AFFINE && q.bits == 8 &&
                q.group == 64);
    assert_true(config_quantization(&c, "a.c", &q, &e) && q.mode == QUANT_NONE);
    assert_false(config_quantization(&c, "a.d", &q, &e));
    assert_int_equal(e.code, ERR_UNSUPPORTED);
    assert_false(config_quantization(&c, "a.e", &q, &e));
    config_close(&c);
    tiny_remove(&t);
}

static void test_missing_paths_are_said(void **state)
{
    struct err e = {0};
    assert_null(model_open("/nonexistent/model", &e));
    assert_int_equal(e.code, ERR_NOTFOUND);
    struct tiny t = {0};
    tiny_make(&t);
    expect_refusal(&t, ERR_NOTFOUND, "no *.safetensors");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts_are_counted),
        cmocka_unit_test(test_expert_layouts_give_the_same_weights),
        cmocka_unit_test(test_shards_with_index_are_read),
        cmocka_unit_test(test_shards_without_index_are_read),
        cmocka_unit_test(test_numbered_shards_must_be_whole),
        cmocka_unit_test(test_single_file_ignores_others),
        cmocka_unit_test(test_missing_tensors_are_named),
        cmocka_unit_test(test_wrong_shapes_are_named),
        cmocka_unit_test(test_values_must_be_finite),
        cmocka_unit_test(test_truncated_file_is_refused),
        cmocka_unit_test(test_configurations_are_checked),
        cmocka_unit_test(test_damaged_configurations_are_refused),
        cmocka_unit_test(test_experts_per_token_can_be_limited),
        cmocka_unit_test(test_fingerprint_knows_weights_apart),
        cmocka_unit_test(test_quantization_overrides_are_affine_without_mode),
        cmocka_unit_test(test_missing_paths_are_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
