/* Where experts lie on disk: what is read by a record's parts is, plane by plane and row by row,
 * what the model's mapping shows, for every layout that files use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/experts/pack/expert_layout.h"
#include "tests/unit/support/expert_models.h"
#include "tests/unit/support/tiny_model.h"

static struct err e;

static void read_parts(const struct expert_layout *l, const struct expert_record *r,
                       uint8_t *memory, size_t size)
{
    memset(memory, 0xee, size);
    for (int i = 0; i < r->n_parts; i++) {
        const struct expert_part *p = &r->parts[i];
        const struct expert_file *f = &l->files[p->file];
        assert_int_equal(p->offset % EXPERT_ALIGN, 0);
        assert_int_equal(p->length % EXPERT_ALIGN, 0);
        assert_int_equal(p->at % EXPERT_ALIGN, 0);
        assert_true(p->at + p->length <= size);
        assert_true(p->offset < f->size);
        assert_true(p->offset + p->length < f->size + EXPERT_ALIGN);
        int fd = open(f->path, O_RDONLY);
        assert_true(fd >= 0);
        uint64_t left = f->size - p->offset;
        size_t want = left < p->length ? (size_t)left : p->length;
        assert_int_equal(pread(fd, memory + p->at, want, (off_t)p->offset), want);
        close(fd);
    }
}

static void compare_rows(const uint8_t *got, size_t got_stride, const uint8_t *want,
                         size_t want_stride, size_t size, int32_t rows)
{
    assert_true((got == NULL) == (want == NULL));
    for (int32_t i = 0; got && i < rows; i++)
        assert_memory_equal(got + (size_t)i * got_stride, want + (size_t)i * want_stride, size);
}

static void compare_matrix(const struct expert_layer *layer, const struct expert_record *r,
                           const uint8_t *memory, const struct moe_plan *m, int32_t x, int i)
{
    const struct weight *const plan[] = {&m->gate, &m->up, &m->down}, *w = &layer->weights[i];
    const struct weight_planes got = expert_record_planes(r, (enum expert_matrix)i, memory),
                               want = weight_planes(plan[i], x);
    compare_rows(got.data, w->row_bytes, want.data, plan[i]->row_bytes, weight_row_size(w),
                 w->rows);
    compare_rows(got.scales, w->scale_row_bytes, want.scales, plan[i]->scale_row_bytes,
                 weight_scale_row_size(w), w->rows);
    compare_rows(got.biases, w->scale_row_bytes, want.biases, plan[i]->scale_row_bytes,
                 weight_scale_row_size(w), w->rows);
}

/* With the head alone, gate and up are whole. */
static void check_head(const struct expert_layout *l, const struct expert_layer *layer,
                       const struct moe_plan *m, int32_t x)
{
    struct expert_record head = layer->records[x];
    uint32_t left = head.gate_up_bytes;
    int32_t n = 0;
    for (; left; n++) {
        assert_true(n < head.n_parts);
        head.parts[n].length = head.parts[n].length < left ? head.parts[n].length : left;
        left -= head.parts[n].length;
    }
    head.n_parts = n;
    uint8_t *memory = calloc(1, layer->record_bytes);
    read_parts(l, &head, memory, layer->record_bytes);
    compare_matrix(layer, &head, memory, m, x, EXPERT_GATE);
    compare_matrix(layer, &head, memory, m, x, EXPERT_UP);
    free(memory);
}

static void check_expert(const struct expert_layout *l, const struct expert_layer *layer,
                         const struct moe_plan *m, int32_t x)
{
    const struct weight *const plan[] = {&m->gate, &m->up, &m->down};
    const struct expert_record *r = &layer->records[x];
    uint8_t *memory = malloc(layer->record_bytes);
    struct weight_planes got[EXPERT_MATRIX__N], want[EXPERT_MATRIX__N];
    struct weight strides[EXPERT_MATRIX__N];
    read_parts(l, r, memory, layer->record_bytes);
    for (int i = 0; i < EXPERT_MATRIX__N; i++) {
        got[i] = expert_record_planes(r, (enum expert_matrix)i, memory);
        want[i] = weight_planes(plan[i], x);
        strides[i] = *plan[i];
        compare_matrix(layer, r, memory, m, x, i);
    }
    uint64_t sum = expert_record_checksum(layer->weights, got);
    assert_int_equal(sum, expert_record_checksum(strides, want));
    memory[r->planes[EXPERT_DOWN][EXPERT_DATA] + 1] ^= 1;
    assert_int_not_equal(sum, expert_record_checksum(layer->weights, got));
    free(memory);
    check_head(l, layer, m, x);
}

static void check_model(const char *path)
{
    struct model *m = model_open(path, &e);
    struct expert_layout l;
    if (!m || !expert_layout_open(&l, m, &e))
        fail_msg("%s: %s", path, e.text);
    const struct model_plan *plan = model_plan(m);
    assert_int_equal(l.expert_bytes, model_stats(m)->expert_bytes);
    assert_true(l.read_bytes >= l.expert_bytes);
    for (int32_t i = 0; i < l.n_layers; i++) {
        const struct moe_plan *moe = &plan->layers[l.layers[i].layer].moe;
        assert_int_equal(plan->layers[l.layers[i].layer].ffn, FFN_MOE);
        assert_int_equal(l.layers[i].n_expert, moe->n_expert);
        for (int32_t x = 0; x < moe->n_expert; x++)
            check_expert(&l, &l.layers[i], moe, x);
    }
    expert_layout_close(&l);
    model_close(&m);
}

static void test_parts_hold_what_the_mapping_shows(void **state)
{
    for (int i = 0; expert_models[i]; i++)
        check_model(expert_model_path(expert_models[i]));
}

static void test_experts_in_tensors_of_their_own_over_three_files(void **state)
{
    static const enum tiny_experts ways[] = {TINY_STACKED, TINY_SEPARATE, TINY_FUSED};
    for (int i = 0; i < 3; i++) {
        struct tiny t = {.experts = ways[i]};
        tiny_make(&t);
        tiny_write(&t, "model-00001-of-00003.safetensors", 0, 3);
        tiny_write(&t, "model-00002-of-00003.safetensors", 1, 3);
        tiny_write(&t, "model-00003-of-00003.safetensors", 2, 3);
        check_model(t.dir);
        tiny_remove(&t);
    }
}

/* Neighbours in a file are one part: fused gate and up lie in a row, gpt-oss's alternate. */
static void test_neighbours_are_read_together(void **state)
{
    struct model *m = model_open(expert_model_path("tests/data/golden/gptoss/hf-mxfp4"), &e);
    struct expert_layout l;
    assert_non_null(m);
    assert_true(expert_layout_open(&l, m, &e));
    const struct expert_record *r = &l.layers[0].records[0];
    assert_true(r->n_parts <= 4);
    for (int i = 0; i < r->n_parts; i++)
        for (int k = 0; k < r->n_parts; k++)
            assert_true(r->parts[i].file != r->parts[k].file || i == k ||
                        r->parts[i].offset != r->parts[k].offset + r->parts[k].length);
    expert_layout_close(&l);
    model_close(&m);
}

static void test_a_model_without_experts_is_refused(void **state)
{
    static const char config[] = "{\"model_type\": \"qwen3\", \"hidden_size\": 32, "
                                 "\"num_hidden_layers\": 2, \"num_attention_heads\": 4,"
                                 " \"num_key_value_heads\": 2, \"head_dim\": 16, \"vocab_size\": "
                                 "40, \"max_position_embeddings\": 128,"
                                 " \"rms_norm_eps\": 1e-6, \"intermediate_size\": 64, "
                                 "\"rope_theta\": 10000, \"eos_token_id\": 3}";
    struct tiny t = {0};
    struct expert_layout l;
    tiny_make(&t);
    tiny_text(&t, "config.json", config);
    tiny_write(&t, "model.safetensors", 0, 1);
    struct model *m = model_open(t.dir, &e);
    assert_non_null(m);
    assert_false(expert_layout_open(&l, m, &e));
    assert_int_equal(e.code, ERR_UNSUPPORTED);
    model_close(&m);
    tiny_remove(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_hold_what_the_mapping_shows),
        cmocka_unit_test(test_experts_in_tensors_of_their_own_over_three_files),
        cmocka_unit_test(test_neighbours_are_read_together),
        cmocka_unit_test(test_a_model_without_experts_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
