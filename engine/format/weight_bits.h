/* Small number formats to f32, exactly, and loads from addresses of any alignment. */
#pragma once
#include <stdint.h>
#include <string.h>

static inline uint16_t load_u16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t load_u32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline float f32_from_bits(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline float bf16_to_f32(uint16_t h)
{
    return f32_from_bits((uint32_t)h << 16);
}

static inline float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 1023;
    if (exponent == 31)
        return f32_from_bits(sign | 0x7f800000 | mantissa << 13);
    if (exponent)
        return f32_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    float v = (float)mantissa * 0x1p-24f; /* subnormal or zero */
    return sign ? -v : v;
}

/* 2^(e - 127); 255 is NaN. e = 0 is 2^-127, subnormal in f32 but exact. */
static inline float e8m0_to_f32(uint8_t e)
{
    return e == 255 ? f32_from_bits(0x7fc00000) : f32_from_bits(e ? (uint32_t)e << 23 : 0x00400000);
}

/* Nearest, ties to even; NaN stays NaN. */
static inline uint16_t f32_to_bf16(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (v != v)
        return (uint16_t)(bits >> 16 | 64);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
