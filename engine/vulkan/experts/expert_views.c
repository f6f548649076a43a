/* See expert_views.h. A view's data, scales and biases are the starts of the device's planes 0, 1
 * and 2 in their first matrix. */
#include "engine/vulkan/experts/expert_views.h"

#include <string.h>

#include "engine/format/weight_block.h"
#include "engine/vulkan/weights/block_decode.h"

/* Affine: scale, bias, scale, bias ... become scales, then biases. Codes stay where they are. */
static void fetch_affine(const struct weight *w, const struct expert_rows_range *r,
                         uint8_t *scratch, struct weight *out)
{
    const struct weight_planes at = weight_planes(w, r->matrix);
    const size_t size = w->scale_type == SCALE_F32 ? 4 : 2, groups = (size_t)(w->cols / w->group),
                 all = (size_t)r->n * groups;
    const uint8_t *pairs = at.scales + (size_t)r->row * w->scale_row_bytes;
    for (size_t i = 0; i < all; i++) {
        memcpy(scratch + i * size, pairs + 2 * i * size, size);
        memcpy(scratch + (all + i) * size, pairs + (2 * i + 1) * size, size);
    }
    out->data = at.data + (size_t)r->row * w->row_bytes;
    out->scales = scratch;
    out->biases = scratch + all * size;
    out->scale_row_bytes = groups * size;
    out->rows = r->n;
    out->n_matrix = 1;
}

/* GGUF's blocks: whole rows. */
static void fetch_blocks(const struct weight *w, const struct expert_rows_range *r,
                         uint8_t *scratch, struct weight *out)
{
    struct device_block_format f;
    const uint32_t blocks = device_block_format_of(w->type, &f) ? (uint32_t)w->cols / f.cols : 0;
    const size_t rows_each = w->matrix_bytes / w->row_bytes,
                 at = (size_t)r->matrix * rows_each + (size_t)r->row;
    out->row_bytes = (size_t)blocks * (f.bytes[0] + f.bytes[1] + f.bytes[2]);
    for (size_t i = 0; i < (size_t)r->n; i++) {
        const uint8_t *planes[BLOCK_PLANES] = {
            (const uint8_t *)w->data + (at + i) * w->row_bytes,
            (const uint8_t *)w->scales + (at + i) * w->scale_row_bytes,
            w->biases ? (const uint8_t *)w->biases + (at + i) * blocks * f.bytes[2] : NULL};
        block_decode_row(&f, planes, blocks, scratch + i * out->row_bytes);
    }
    out->data = scratch;
    out->scales = out->biases = NULL;
    out->rows = r->n;
    out->n_matrix = 1;
}

static expert_rows_fetch fetch_of(const struct weight *w)
{
    struct device_block_format f;
    return w->type == WEIGHT_AFFINE              ? fetch_affine
           : device_block_format_of(w->type, &f) ? fetch_blocks
                                                 : NULL;
}

/* which: 0 records, 1 down; first: row of the record. */
static bool view_of(const struct device_model *m, const struct device_experts *x,
                    const struct device_layout *l, const struct weight *w, int which, int64_t first,
                    struct weight *view)
{
    const uint8_t *planes[DEVICE_PLANES] = {NULL};
    for (int i = 0; i < DEVICE_PLANES; i++) {
        if (l->row_bytes[i] && !(planes[i] = heap_map(&m->host, x->host[which][i])))
            return false;
        planes[i] = planes[i] ? planes[i] + (size_t)first * l->row_bytes[i] : NULL;
    }
    const bool laid_out =
        w->type == WEIGHT_MXFP4_BLOCK; /* its scales now in a plane of their own */
    *view = (struct weight){.type = laid_out ? WEIGHT_MXFP4 : w->type,
                            .bits = w->bits,
                            .group = laid_out ? weight_block_cols(w->type) : w->group,
                            .scale_type = laid_out ? SCALE_E8M0 : w->scale_type,
                            .n_matrix = w->n_matrix,
                            .rows = w->rows,
                            .cols = w->cols,
                            .row_bytes = l->row_bytes[0],
                            .matrix_bytes = x->each[which][0],
                            .scale_row_bytes = l->row_bytes[1],
                            .scale_matrix_bytes = x->each[which][1],
                            .data = planes[0],
                            .scales = planes[1],
                            .biases = planes[2],
                            .name = w->name};
    return planes[0] != NULL;
}

/* Gate, up and down share this function, which looks at the type of the weight that it is given. */
static void fetch_any(const struct weight *w, const struct expert_rows_range *r, uint8_t *scratch,
                      struct weight *out)
{
    const expert_rows_fetch fetch = fetch_of(w);
    if (fetch) {
        fetch(w, r, scratch, out);
        return;
    }
    const struct weight_planes at = weight_planes(w, r->matrix);
    out->data = at.data + (size_t)r->row * w->row_bytes;
    out->scales = at.scales ? at.scales + (size_t)r->row * w->scale_row_bytes : NULL;
    out->rows = r->n;
    out->n_matrix = 1;
}

bool expert_views_of(const struct device_model *m, int32_t layer, struct expert_rows_layer *out,
                     struct err *e)
{
    const struct device_layer *l = &m->layers[layer];
    const struct device_experts *x = &l->split_experts;
    *out = (struct expert_rows_layer){0};
    if (!x->gate)
        return true;
    if (!view_of(m, x, &l->mlp.gate_up.layout, x->gate, 0, 0, &out->gate) ||
        !view_of(m, x, &l->mlp.gate_up.layout, x->up, 0, x->gate->rows, &out->up) ||
        !view_of(m, x, &l->mlp.down.layout, x->down, 1, 0, &out->down)) {
        return err_set(e, ERR_INTERNAL, "experts of layer %d lie nowhere", layer);
    }
    out->fetch =
        fetch_of(&out->gate) || fetch_of(&out->up) || fetch_of(&out->down) ? fetch_any : NULL;
    return true;
}
