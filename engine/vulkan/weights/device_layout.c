/* Converts the file's layout to the device's, row by row. */
#include "engine/vulkan/weights/device_layout.h"

#include <string.h>

#include "engine/vulkan/weights/device_block.h"

static uint32_t scale_bytes(enum scale_type t)
{
    return t == SCALE_F32 ? 4 : t == SCALE_E8M0 ? 1 : 2;
}

bool device_layout_of(const struct weight *w, struct device_layout *l, struct err *e)
{
    char text[64];
    struct device_block_format f;
    uint32_t n = (uint32_t)(w->cols + 31) / 32;
    *l = (struct device_layout){.n_chunk = n, .bits = 4, .group_chunks = 1};
    switch (w->type) {
    case WEIGHT_F32:
        l->kernel = "f32";
        l->row_bytes[0] = n * 128;
        return true;
    case WEIGHT_F16:
    case WEIGHT_BF16:
        l->kernel = w->type == WEIGHT_F16 ? "f16" : "bf16";
        l->row_bytes[0] = n * 64;
        return true;
    case WEIGHT_MXFP4:
        l->kernel = "mxfp4";
        l->row_bytes[0] = n * 16;
        l->row_bytes[1] = n;
        return true;
    case WEIGHT_AFFINE:
        l->kernel = "affine";
        l->bits = (uint32_t)w->bits;
        l->group_chunks = (uint32_t)w->group / 32;
        l->scale_type = w->scale_type == SCALE_BF16 ? 0 : w->scale_type == SCALE_F16 ? 1 : 2;
        l->row_bytes[0] = n * 4 * l->bits;
        l->row_bytes[1] = n / l->group_chunks * 2 * scale_bytes(w->scale_type);
        return true;
    case WEIGHT_MXFP4_BLOCK:
        l->kernel = "mxfp4";
        l->row_bytes[0] = n * 16;
        l->row_bytes[1] = n;
        return true;
    default:
        if (device_block_format_of(w->type, &f)) {
            l->kernel = "block";
            l->block = f.block;
            for (int i = 0; i < BLOCK_PLANES; i++)
                l->row_bytes[i] = (uint32_t)w->cols / f.cols * f.bytes[i];
            return true;
        }
        return err_set(e, ERR_UNSUPPORTED, "%s: no Vulkan kernel reads %s yet",
                       w->name ? w->name : "a weight", weight_type_text(w, text, sizeof text));
    }
}

void device_layout_keep_codes(struct device_layout *l)
{
    if (strcmp(l->kernel, "mxfp4") == 0)
        l->block = MXFP4_IN_ORDER;
}

bool device_layout_equal(const struct device_layout *a, const struct device_layout *b)
{
    return a->kernel == b->kernel && a->bits == b->bits && a->group_chunks == b->group_chunks &&
           a->scale_type == b->scale_type && a->block == b->block && a->n_chunk == b->n_chunk;
}

/* scale, bias, scale, bias ... */
static void interleave(uint8_t *out, const uint8_t *scales, const uint8_t *biases, uint32_t n,
                       uint32_t size)
{
    for (uint32_t i = 0; i < n; i++) {
        memcpy(out + (size_t)(2 * i) * size, scales + (size_t)i * size, size);
        memcpy(out + (size_t)(2 * i + 1) * size, biases + (size_t)i * size, size);
    }
}

static void copy_padded(uint8_t *out, uint32_t out_bytes, const uint8_t *from, size_t bytes)
{
    memcpy(out, from, bytes);
    memset(out + bytes, 0, out_bytes - bytes);
}

void device_layout_rows(const struct weight *w, const struct device_layout *l,
                        const struct device_rows *r, uint8_t *out)
{
    const int plane = r->plane;
    struct device_block_format f;
    for (int64_t i = r->first; i < r->first + r->n; i++, out += l->row_bytes[plane]) {
        int64_t matrix = i / w->rows, row = i % w->rows;
        struct weight_planes planes = weight_planes(w, (int32_t)matrix);
        const uint8_t *data = (const uint8_t *)planes.data + (size_t)row * w->row_bytes;
        size_t at = (size_t)row * w->scale_row_bytes;
        switch (w->type) {
        case WEIGHT_F32:
            copy_padded(out, l->row_bytes[0], data, (size_t)w->cols * 4);
            break;
        case WEIGHT_F16:
        case WEIGHT_BF16:
            copy_padded(out, l->row_bytes[0], data, (size_t)w->cols * 2);
            break;
        case WEIGHT_AFFINE:
            if (plane == 0) {
                memcpy(out, data, l->row_bytes[0]);
            } else {
                uint32_t size = scale_bytes(w->scale_type);
                interleave(out, (const uint8_t *)planes.scales + at,
                           (const uint8_t *)planes.biases + at, l->row_bytes[1] / (2 * size), size);
            }
            break;
        case WEIGHT_MXFP4:
            if (plane == 0 && l->block == MXFP4_BY_MASKS)
                device_mxfp4_codes(data, l->n_chunk, out);
            else
                memcpy(out, plane == 0 ? data : (const uint8_t *)planes.scales + at,
                       l->row_bytes[plane]);
            break;
        case WEIGHT_MXFP4_BLOCK:
            if (plane == 0 && l->block == MXFP4_BY_MASKS)
                device_block_mxfp4_codes(data, l->n_chunk, out);
            else
                device_block_mxfp4_row(plane, data, l->n_chunk, out);
            break;
        default:
            if (device_block_format_of(w->type, &f))
                device_block_row(&f, plane, data, (uint32_t)w->cols / f.cols, out);
            break;
        }
    }
}
