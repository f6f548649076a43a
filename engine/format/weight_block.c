/* Dequantises the block formats of GGUF, one function per format: block bytes in, 32 or 256 floats
 * out. `d` is the block's scale, `m` its minimum; codes come out in the order of the columns. */
#include "engine/format/weight_block.h"

#include "engine/format/weight_bits.h"

const float weight_fp4[16] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                              -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
const int8_t weight_iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};

static float load_f16(const uint8_t *p)
{
    return f16_to_f32(load_u16(p));
}

static void q8_0(const uint8_t *b, float *out)
{
    float d = load_f16(b);
    for (int i = 0; i < 32; i++)
        out[i] = (float)(int8_t)b[2 + i] * d;
}

static void q4_0(const uint8_t *b, float *out)
{
    float d = load_f16(b);
    for (int i = 0; i < 16; i++) {
        out[i] = (float)((b[2 + i] & 15) - 8) * d;
        out[i + 16] = (float)((b[2 + i] >> 4) - 8) * d;
    }
}

static void q4_1(const uint8_t *b, float *out)
{
    float d = load_f16(b), m = load_f16(b + 2);
    for (int i = 0; i < 16; i++) {
        out[i] = (float)(b[4 + i] & 15) * d + m;
        out[i + 16] = (float)(b[4 + i] >> 4) * d + m;
    }
}

static void q5_0(const uint8_t *b, float *out)
{
    float d = load_f16(b);
    uint32_t high = load_u32(b + 2);
    for (int i = 0; i < 16; i++) {
        unsigned low_bit = (high >> i & 1) << 4, high_bit = (high >> (i + 16) & 1) << 4;
        out[i] = (float)((int)((b[6 + i] & 15) | low_bit) - 16) * d;
        out[i + 16] = (float)((int)((b[6 + i] >> 4) | high_bit) - 16) * d;
    }
}

static void q5_1(const uint8_t *b, float *out)
{
    float d = load_f16(b), m = load_f16(b + 2);
    uint32_t high = load_u32(b + 4);
    for (int i = 0; i < 16; i++) {
        unsigned low_bit = (high >> i & 1) << 4, high_bit = (high >> (i + 16) & 1) << 4;
        out[i] = (float)((b[8 + i] & 15) | low_bit) * d + m;
        out[i + 16] = (float)((b[8 + i] >> 4) | high_bit) * d + m;
    }
}

static void iq4_nl(const uint8_t *b, float *out)
{
    float d = load_f16(b);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)weight_iq4_levels[b[2 + i] & 15];
        out[i + 16] = d * (float)weight_iq4_levels[b[2 + i] >> 4];
    }
}

static void mxfp4(const uint8_t *b, float *out)
{
    float d = e8m0_to_f32(b[0]);
    for (int i = 0; i < 16; i++) {
        out[i] = weight_fp4[b[1 + i] & 15] * d;
        out[i + 16] = weight_fp4[b[1 + i] >> 4] * d;
    }
}

/* scales[16] (low nibble scale, high minimum), codes[64], d, dmin */
static void q2_k(const uint8_t *b, float *out)
{
    const uint8_t *codes = b + 16;
    float d = load_f16(b + 80), m = load_f16(b + 82);
    for (int i = 0; i < 256; i++) {
        uint8_t scale = b[i / 16];
        int code = codes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
        float dl = d * (float)(scale & 15), ml = m * (float)(scale >> 4);
        out[i] = dl * (float)code - ml;
    }
}

/* high[32] (one bit each, inverted), codes[64], scales[12] (6 bits, offset 32), d */
static void q3_k(const uint8_t *b, float *out)
{
    const uint8_t *codes = b + 32, *scales = b + 96;
    float d = load_f16(b + 108);
    for (int i = 0; i < 256; i++) {
        int s = i / 16;
        int low = s < 8 ? scales[s] & 15 : scales[s - 8] >> 4;
        int scale = (low | (scales[8 + s % 4] >> (s / 4 * 2) & 3) << 4) - 32;
        int code = codes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
        int high = b[i % 32] >> (i / 32) & 1;
        out[i] = d * (float)scale * (float)(code - (high ? 0 : 4));
    }
}

/* Six-bit scale and minimum of sub-block j, of the 12 bytes that Q4_K and Q5_K share. */
static void scale_min_k4(const uint8_t *s, int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
        *min = s[j + 4] >> 4 | s[j] >> 6 << 4;
    }
}

/* d, dmin, scales[12], (Q5_K: high[32]), codes[128]: 64 columns share 32 bytes, low nibbles first
 */
static void q4_k_or_q5_k(const uint8_t *b, const uint8_t *high, const uint8_t *codes, float *out)
{
    float d = load_f16(b), m = load_f16(b + 2);
    for (int j = 0; j < 8; j++) {
        int scale, min;
        scale_min_k4(b + 4, j, &scale, &min);
        float dl = d * (float)scale, ml = m * (float)min;
        for (int i = 0; i < 32; i++) {
            int code = codes[j / 2 * 32 + i] >> (j % 2 * 4) & 15;
            if (high)
                code |= (high[i] >> j & 1) << 4;
            out[j * 32 + i] = dl * (float)code - ml;
        }
    }
}

static void q4_k(const uint8_t *b, float *out)
{
    q4_k_or_q5_k(b, NULL, b + 16, out);
}

static void q5_k(const uint8_t *b, float *out)
{
    q4_k_or_q5_k(b, b + 16, b + 48, out);
}

/* low[128], high[64], scales[16] (signed), d */
static void q6_k(const uint8_t *b, float *out)
{
    const uint8_t *low = b, *high = b + 128;
    const int8_t *scales = (const int8_t *)b + 192;
    float d = load_f16(b + 208);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, quarter = i % 128 / 32, l = i % 32;
        int nibble = low[half * 64 + quarter % 2 * 32 + l] >> (quarter / 2 * 4) & 15;
        int code = (nibble | (high[half * 32 + l] >> (quarter * 2) & 3) << 4) - 32;
        out[i] = d * (float)scales[i / 16] * (float)code;
    }
}

/* d, scales_high (2 bits each), scales_low[4] (4 bits each), codes[128] */
static void iq4_xs(const uint8_t *b, float *out)
{
    float d = load_f16(b);
    unsigned scales_high = load_u16(b + 2);
    for (int j = 0; j < 8; j++) {
        int scale = (b[4 + j / 2] >> (j % 2 * 4) & 15) | (int)(scales_high >> (j * 2) & 3) << 4;
        float dl = d * (float)(scale - 32);
        for (int i = 0; i < 16; i++) {
            uint8_t code = b[8 + j * 16 + i];
            out[j * 32 + i] = dl * (float)weight_iq4_levels[code & 15];
            out[j * 32 + i + 16] = dl * (float)weight_iq4_levels[code >> 4];
        }
    }
}

static const struct block_format {
    int cols;
    size_t size;
    void (*dequantize)(const uint8_t *block, float *out);
} formats[WEIGHT__N] = {
    [WEIGHT_Q8_0] = {32, 34, q8_0},         [WEIGHT_Q4_0] = {32, 18, q4_0},
    [WEIGHT_Q4_1] = {32, 20, q4_1},         [WEIGHT_Q5_0] = {32, 22, q5_0},
    [WEIGHT_Q5_1] = {32, 24, q5_1},         [WEIGHT_Q2_K] = {256, 84, q2_k},
    [WEIGHT_Q3_K] = {256, 110, q3_k},       [WEIGHT_Q4_K] = {256, 144, q4_k},
    [WEIGHT_Q5_K] = {256, 176, q5_k},       [WEIGHT_Q6_K] = {256, 210, q6_k},
    [WEIGHT_IQ4_NL] = {32, 18, iq4_nl},     [WEIGHT_IQ4_XS] = {256, 136, iq4_xs},
    [WEIGHT_MXFP4_BLOCK] = {32, 17, mxfp4},
};

int weight_block_cols(enum weight_type t)
{
    return formats[t].cols ? formats[t].cols : 1;
}

size_t weight_block_size(enum weight_type t)
{
    return formats[t].size;
}

void weight_block_row_f32(enum weight_type t, const uint8_t *row, int32_t cols, float *out)
{
    const struct block_format *f = &formats[t];
    for (int32_t i = 0; i < cols / f->cols; i++)
        f->dequantize(row + (size_t)i * f->size, out + (size_t)i * (size_t)f->cols);
}
