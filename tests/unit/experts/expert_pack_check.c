/* expert_pack_check.h: each record of a packed sidecar against the bytes of the model. */
#include "tests/unit/experts/expert_pack_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/experts/pack/expert_pack.h"

static void compare_rows(const uint8_t *got, size_t got_stride, const uint8_t *want,
                         size_t want_stride, size_t size, int32_t rows)
{
    assert_true((got == NULL) == (want == NULL));
    for (int32_t i = 0; got && i < rows; i++)
        assert_memory_equal(got + (size_t)i * got_stride, want + (size_t)i * want_stride, size);
}

static void check_record(const struct expert_layer *layer, const struct expert_record *r,
                         const uint8_t *memory, const struct moe_plan *m, int32_t x)
{
    const struct weight *const plan[] = {&m->gate, &m->up, &m->down};
    struct weight_planes got[EXPERT_MATRIX__N], want;
    for (int i = 0; i < EXPERT_MATRIX__N; i++) {
        const struct weight *w = &layer->weights[i];
        got[i] = expert_record_planes(r, (enum expert_matrix)i, memory);
        want = weight_planes(plan[i], x);
        assert_null(w->table);
        assert_int_equal(w->row_bytes, weight_row_size(w));
        compare_rows(got[i].data, w->row_bytes, want.data, plan[i]->row_bytes, weight_row_size(w),
                     w->rows);
        compare_rows(got[i].scales, w->scale_row_bytes, want.scales, plan[i]->scale_row_bytes,
                     weight_scale_row_size(w), w->rows);
        compare_rows(got[i].biases, w->scale_row_bytes, want.biases, plan[i]->scale_row_bytes,
                     weight_scale_row_size(w), w->rows);
    }
    assert_int_equal(expert_record_checksum(layer->weights, got), r->checksum);
}

void expert_pack_check(const struct model *m, const char *path)
{
    struct err e = {0};
    struct expert_layout l, own;
    if (!expert_pack_open(&l, m, path, &e) || !expert_layout_open(&own, m, &e))
        fail_msg("%s", e.text);
    assert_true(l.packed);
    assert_int_equal(l.n_files, 1);
    assert_int_equal(l.expert_bytes, own.expert_bytes);
    uint64_t at = l.layers[0].records[0].parts[0].offset, sum = 0, records;
    assert_int_equal(l.files[0].size, expert_pack_bytes(&own, &records));
    assert_int_equal(l.read_bytes, records);
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    for (int32_t i = 0; i < l.n_layers; i++)
        for (int32_t x = 0; x < l.layers[i].n_expert; x++) {
            const struct expert_record *r = &l.layers[i].records[x];
            uint8_t *memory = malloc(l.layers[i].record_bytes);
            assert_int_equal(r->n_parts, 1);
            assert_int_equal(r->parts[0].offset, at);
            assert_int_equal(r->parts[0].length, l.layers[i].record_bytes);
            assert_int_equal(r->parts[0].length % EXPERT_ALIGN, 0);
            assert_int_equal(pread(fd, memory, r->parts[0].length, (off_t)at), r->parts[0].length);
            check_record(&l.layers[i], r, memory, &model_plan(m)->layers[l.layers[i].layer].moe, x);
            at += r->parts[0].length;
            sum += r->parts[0].length;
            free(memory);
        }
    close(fd);
    assert_int_equal(at, l.files[0].size);
    assert_int_equal(sum, l.read_bytes);
    expert_layout_close(&own);
    expert_layout_close(&l);
}
