/* Rotates, rounds and reads keys and values in plain C; see kv_pack.h. */
#include "engine/cpu/kernels/kv_pack.h"

#include <math.h>
#include <string.h>

#include "engine/cpu/kernels/kv_layout.h"
#include "engine/format/weight_bits.h"

void kv_pack_rotate(float *v, int32_t d_head)
{
    const int32_t n = kv_rotation(d_head);
    const float norm = 1 / sqrtf((float)n);
    for (int32_t at = 0; at < d_head; at += n) {
        for (int32_t step = 1; step < n; step *= 2)
            for (int32_t i = 0; i < n; i++) {
                if (i & step)
                    continue;
                float *a = v + at + i, *b = a + step, first = *a;
                *a = first + *b;
                *b = first - *b;
            }
        for (int32_t i = 0; i < n; i++)
            v[at + i] *= norm;
    }
}

uint16_t kv_pack_half(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    bits &= 0x7fffffff;
    if (bits > 0x7f800000)
        return sign | 0x7e00;
    if (bits >= 0x477ff000) /* would round to infinity */
        return sign | 0x7bff;
    if (bits < 0x38800000) { /* a subnormal half: a multiple of 2^-24 */
        float magnitude;
        memcpy(&magnitude, &bits, sizeof magnitude);
        return sign | (uint16_t)lrintf(magnitude * 0x1p24f);
    }
    bits += 0xfff + (bits >> 13 & 1);
    return sign | (uint16_t)((bits - (112u << 23)) >> 13);
}

/* The value of the greatest magnitude. */
static float extreme(const float *v, int32_t n)
{
    float most = v[0], least = v[0];
    for (int32_t i = 1; i < n; i++) {
        most = v[i] > most ? v[i] : most;
        least = v[i] < least ? v[i] : least;
    }
    return most >= -least ? most : least;
}

/* Nearest integer of v times inverse, within low .. high; NaN becomes low. */
static int32_t rounded(float v, float inverse, int32_t low, int32_t high)
{
    const float x = v * inverse;
    return !(x > (float)low) ? low : x >= (float)high ? high : (int32_t)lrintf(x);
}

static float inverse_of(uint16_t scale)
{
    const float s = f16_to_f32(scale);
    return s == 0 ? 0 : 1 / s;
}

static uint16_t byte_scale(const float *v, int32_t n)
{
    return kv_pack_half(fabsf(extreme(v, n)) / 127);
}

static void store_nibbles(const struct kv_packed *p, const float *v, int32_t d_head, int32_t slot)
{
    uint8_t *to = p->values + (size_t)slot * (size_t)d_head / 2;
    for (int32_t g = 0; g < d_head / p->group; g++) {
        const float *from = v + g * p->group;
        /* The extreme value, whatever its sign, becomes -8: the side with one level more. */
        const uint16_t scale = kv_pack_half(extreme(from, p->group) / -8);
        const float inverse = inverse_of(scale);
        p->value_scales[g * KV_TOKENS + slot] = scale;
        for (int32_t i = 0; i < p->group; i += 2)
            to[(g * p->group + i) / 2] = (uint8_t)((rounded(from[i], inverse, -8, 7) + 8) |
                                                   (rounded(from[i + 1], inverse, -8, 7) + 8) << 4);
    }
}

void kv_pack_store(const struct kv_view *kv, int32_t block, int32_t slot, int32_t head,
                   const float *k, const float *v)
{
    const struct kv_packed p = kv_packed_at(kv, block, head);
    const int32_t d = kv->d_head;
    const uint16_t key_scale = byte_scale(k, d);
    const float inverse = inverse_of(key_scale);
    p.key_scales[slot] = key_scale;
    for (int32_t i = 0; i < d; i++)
        p.keys[(i / 2 * KV_TOKENS + slot) * 2 + i % 2] = (int8_t)rounded(k[i], inverse, -127, 127);
    if (kv->type == KV_K8V4) {
        store_nibbles(&p, v, d, slot);
        return;
    }
    const uint16_t scale = byte_scale(v, d);
    const float inverse_value = inverse_of(scale);
    p.value_scales[slot] = scale;
    for (int32_t i = 0; i < d; i++)
        ((int8_t *)p.values)[slot * d + i] = (int8_t)rounded(v[i], inverse_value, -127, 127);
}

float kv_pack_key(const struct kv_view *kv, int32_t block, int32_t slot, int32_t head, int32_t i)
{
    const struct kv_packed p = kv_packed_at(kv, block, head);
    return f16_to_f32(p.key_scales[slot]) * (float)p.keys[(i / 2 * KV_TOKENS + slot) * 2 + i % 2];
}

float kv_pack_value(const struct kv_view *kv, int32_t block, int32_t slot, int32_t head, int32_t i)
{
    const struct kv_packed p = kv_packed_at(kv, block, head);
    const float scale = f16_to_f32(p.value_scales[i / p.group * KV_TOKENS + slot]);
    const size_t at = (size_t)slot * (size_t)kv->d_head + (size_t)i;
    if (kv->type == KV_Q8)
        return scale * (float)((const int8_t *)p.values)[at];
    return scale * (float)((p.values[at / 2] >> (at % 2 * 4) & 15) - 8);
}
