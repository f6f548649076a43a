/* See block.h. Layouts as in engine/format/weight.h; tests hold this against weight_row_f32. */
#include "engine/cpu/panel/block.h"

#include <string.h>

#include "engine/format/weight_bits.h"
#include "engine/format/weight_block.h"

static const int8_t fp4_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static float f16_at(const uint8_t *p)
{
    return f16_to_f32(load_u16(p));
}

static void set_scale(struct block *out, float scale, float min)
{
    out->scale[0] = out->scale[1] = scale;
    out->min[0] = out->min[1] = min;
}

static float scale_at(const uint8_t *p, enum scale_type type, int32_t i)
{
    if (type == SCALE_F32)
        return f32_from_bits(load_u32(p + 4 * (size_t)i));
    if (type == SCALE_E8M0)
        return e8m0_to_f32(p[i]);
    uint16_t bits = load_u16(p + 2 * (size_t)i);
    return type == SCALE_F16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

/* 32 values of `bits` bits are 4 * bits bytes: a whole number of 32-bit words. */
static void bit_stream(const uint8_t *from, int bits, int16_t *q)
{
    uint64_t held = 0;
    int have = 0;
    for (int i = 0; i < 32; i++) {
        if (have < bits) {
            held |= (uint64_t)load_u32(from) << have;
            from += 4;
            have += 32;
        }
        q[i] = (int16_t)(held & ((1u << bits) - 1));
        held >>= bits;
        have -= bits;
    }
}

static void affine(const struct weight *w, const struct weight_planes *p, int32_t row,
                   int32_t block, struct block *out)
{
    size_t scale_row = (size_t)row * w->scale_row_bytes;
    int32_t group = block * 32 / w->group;
    bit_stream(p->data + (size_t)row * w->row_bytes + (size_t)block * 4 * (size_t)w->bits, w->bits,
               out->q);
    set_scale(out, scale_at(p->scales + scale_row, w->scale_type, group),
              scale_at(p->biases + scale_row, w->scale_type, group));
}

/* Byte i holds columns i and i + 16. */
static void split_nibbles(const uint8_t *from, const int8_t *levels, int16_t *q)
{
    for (int i = 0; i < 16; i++) {
        q[i] = levels[from[i] & 15];
        q[i + 16] = levels[from[i] >> 4];
    }
}

static const int8_t counting[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static const int8_t counting_from_minus_8[16] = {-8, -7, -6, -5, -4, -3, -2, -1,
                                                 0,  1,  2,  3,  4,  5,  6,  7};

static void q5_legacy(const uint8_t *high, const uint8_t *from, int offset, int16_t *q)
{
    uint32_t bits = load_u32(high);
    for (int i = 0; i < 32; i++) {
        int low = i < 16 ? from[i] & 15 : from[i - 16] >> 4;
        q[i] = (int16_t)((low | (int)(bits >> i & 1) << 4) - offset);
    }
}

static void q2_k(const uint8_t *b, int sub, struct block *out)
{
    float d = f16_at(b + 80), m = f16_at(b + 82);
    for (int i = 0; i < 32; i++)
        out->q[i] = b[16 + sub / 4 * 32 + i] >> (sub % 4 * 2) & 3;
    for (int h = 0; h < 2; h++) {
        out->scale[h] = d * (float)(b[2 * sub + h] & 15);
        out->min[h] = -(m * (float)(b[2 * sub + h] >> 4));
    }
}

static void q3_k(const uint8_t *b, int sub, struct block *out)
{
    const uint8_t *scales = b + 96;
    float d = f16_at(b + 108);
    for (int i = 0; i < 32; i++) {
        int code = b[32 + sub / 4 * 32 + i] >> (sub % 4 * 2) & 3;
        out->q[i] = (int16_t)(code - (b[i] >> sub & 1 ? 0 : 4));
    }
    for (int h = 0; h < 2; h++) {
        int s = 2 * sub + h, low = s < 8 ? scales[s] & 15 : scales[s - 8] >> 4;
        out->scale[h] = d * (float)((low | (scales[8 + s % 4] >> (s / 4 * 2) & 3) << 4) - 32);
        out->min[h] = 0;
    }
}

static void q4_k_or_q5_k(const uint8_t *b, const uint8_t *high, const uint8_t *codes, int sub,
                         struct block *out)
{
    const uint8_t *s = b + 4;
    int scale = s[sub] & 63, min = s[sub + 4] & 63;
    if (sub >= 4) {
        scale = (s[sub + 4] & 15) | s[sub - 4] >> 6 << 4;
        min = s[sub + 4] >> 4 | s[sub] >> 6 << 4;
    }
    set_scale(out, f16_at(b) * (float)scale, -(f16_at(b + 2) * (float)min));
    for (int i = 0; i < 32; i++) {
        int code = codes[sub / 2 * 32 + i] >> (sub % 2 * 4) & 15;
        out->q[i] = (int16_t)(high ? code | (high[i] >> sub & 1) << 4 : code);
    }
}

static void q6_k(const uint8_t *b, int sub, struct block *out)
{
    int half = sub / 4, quarter = sub % 4;
    float d = f16_at(b + 208);
    for (int i = 0; i < 32; i++) {
        int nibble = b[half * 64 + quarter % 2 * 32 + i] >> (quarter / 2 * 4) & 15;
        out->q[i] = (int16_t)((nibble | (b[128 + half * 32 + i] >> (quarter * 2) & 3) << 4) - 32);
    }
    for (int h = 0; h < 2; h++) {
        out->scale[h] = d * (float)(int8_t)b[192 + 2 * sub + h];
        out->min[h] = 0;
    }
}

static void iq4_xs(const uint8_t *b, int sub, struct block *out)
{
    int scale = (b[4 + sub / 2] >> (sub % 2 * 4) & 15) | (load_u16(b + 2) >> (sub * 2) & 3) << 4;
    set_scale(out, f16_at(b) * (float)(scale - 32), 0);
    split_nibbles(b + 8 + sub * 16, weight_iq4_levels, out->q);
}

static void gguf(enum weight_type type, const uint8_t *row, int32_t block, struct block *out)
{
    int cols = weight_block_cols(type), sub = block * 32 % cols / 32;
    const uint8_t *b = row + (size_t)(block * 32 / cols) * weight_block_size(type);
    switch (type) {
    case WEIGHT_Q8_0:
        set_scale(out, f16_at(b), 0);
        for (int i = 0; i < 32; i++)
            out->q[i] = (int8_t)b[2 + i];
        break;
    case WEIGHT_Q4_0:
        set_scale(out, f16_at(b), 0);
        split_nibbles(b + 2, counting_from_minus_8, out->q);
        break;
    case WEIGHT_Q4_1:
        set_scale(out, f16_at(b), f16_at(b + 2));
        split_nibbles(b + 4, counting, out->q);
        break;
    case WEIGHT_Q5_0:
        set_scale(out, f16_at(b), 0);
        q5_legacy(b + 2, b + 6, 16, out->q);
        break;
    case WEIGHT_Q5_1:
        set_scale(out, f16_at(b), f16_at(b + 2));
        q5_legacy(b + 4, b + 8, 0, out->q);
        break;
    case WEIGHT_IQ4_NL:
        set_scale(out, f16_at(b), 0);
        split_nibbles(b + 2, weight_iq4_levels, out->q);
        break;
    case WEIGHT_MXFP4_BLOCK:
        set_scale(out, 0.5f * e8m0_to_f32(b[0]), 0);
        split_nibbles(b + 1, fp4_doubled, out->q);
        break;
    case WEIGHT_Q2_K:
        q2_k(b, sub, out);
        break;
    case WEIGHT_Q3_K:
        q3_k(b, sub, out);
        break;
    case WEIGHT_Q4_K:
        q4_k_or_q5_k(b, NULL, b + 16, sub, out);
        break;
    case WEIGHT_Q5_K:
        q4_k_or_q5_k(b, b + 16, b + 48, sub, out);
        break;
    case WEIGHT_Q6_K:
        q6_k(b, sub, out);
        break;
    case WEIGHT_IQ4_XS:
        iq4_xs(b, sub, out);
        break;
    default:
        break;
    }
}

bool block_is_packed(const struct weight *w)
{
    return w->type != WEIGHT_F32 && w->type != WEIGHT_F16 && w->type != WEIGHT_BF16;
}

void block_decode(const struct weight *w, const struct weight_planes *p, int32_t row, int32_t block,
                  struct block *out)
{
    const uint8_t *data = p->data + (size_t)row * w->row_bytes;
    if (w->type == WEIGHT_AFFINE) {
        affine(w, p, row, block, out);
    } else if (w->type == WEIGHT_MXFP4) {
        const uint8_t *from = data + (size_t)block * 16;
        set_scale(out,
                  0.5f * e8m0_to_f32(p->scales[(size_t)row * w->scale_row_bytes + (size_t)block]),
                  0);
        for (int i = 0; i < 16; i++) {
            out->q[2 * i] = fp4_doubled[from[i] & 15];
            out->q[2 * i + 1] = fp4_doubled[from[i] >> 4];
        }
    } else {
        gguf(w->type, data, block, out);
    }
}

static void plain_f32(const struct weight *w, const uint8_t *row, int32_t block, float *out)
{
    int32_t first = block * 32, left = w->cols - first, n = left < 32 ? left : 32;
    memset(out, 0, 32 * sizeof *out);
    for (int32_t i = 0; i < n; i++) {
        size_t at = (size_t)(first + i);
        if (w->type == WEIGHT_F32)
            out[i] = f32_from_bits(load_u32(row + 4 * at));
        else
            out[i] = w->type == WEIGHT_F16 ? f16_to_f32(load_u16(row + 2 * at))
                                           : bf16_to_f32(load_u16(row + 2 * at));
    }
}

void block_f32(const struct weight *w, const struct weight_planes *p, int32_t row, int32_t block,
               float *out)
{
    struct block b;
    if (!block_is_packed(w)) {
        plain_f32(w, p->data + (size_t)row * w->row_bytes, block, out);
        return;
    }
    block_decode(w, p, row, block, &b);
    for (int i = 0; i < 32; i++)
        out[i] = b.scale[i / 16] * (float)b.q[i] + b.min[i / 16];
}
