/* Random bytes (xoshiro256**), and the planes of packed weights made from them chunk by chunk. */
#include "fcgi/cli/bench/synth.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "engine/format/weight_bits.h"

#define CHUNK (1u << 20) /* bytes made at a time */

/* splitmix64 fills the state, as xoshiro's authors advise. */
void synth_seed(struct synth_random *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        r->state[i] = z ^ z >> 31;
    }
}

static uint64_t rotate(uint64_t v, int by)
{
    return v << by | v >> (64 - by);
}

static uint64_t next(struct synth_random *r)
{
    uint64_t *s = r->state, out = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return out;
}

void synth_bytes(struct synth_random *r, void *out, size_t len)
{
    uint8_t *at = out;
    for (; len >= 8; len -= 8, at += 8) {
        uint64_t v = next(r);
        memcpy(at, &v, 8);
    }
    uint64_t v = next(r);
    memcpy(at, &v, len);
}

bool synth_space(const char *path, uint64_t bytes, struct err *e)
{
    char folder[4096];
    struct statvfs v;
    snprintf(folder, sizeof folder, "%s", path);
    if (statvfs(folder, &v)) {
        char *slash = strrchr(folder, '/');
        snprintf(slash ? slash + 1 : folder, 2, ".");
        if (statvfs(folder, &v))
            return err_errno(e, "%s", path);
    }
    uint64_t there = (uint64_t)v.f_bavail * v.f_frsize;
    if (bytes + (64u << 20) <= there)
        return true;
    return err_set(e, ERR_LIMIT, "the model has %.1f GB, the disk has room for %.1f",
                   (double)bytes / 1e9, (double)there / 1e9);
}

/* Nearest is not needed for random numbers: cut. Values here are far from f16's limits. */
static uint16_t f32_to_f16_cut(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    int exponent = (int)(bits >> 23 & 255) - 112;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (exponent <= 0)
        return sign;
    return (uint16_t)(sign | (exponent > 30 ? 30 : exponent) << 10 | (bits >> 13 & 1023));
}

static size_t value_size(enum synth_type type)
{
    return type == SYNTH_F32 ? 4 : 2;
}

static void put_value(uint8_t *at, enum synth_type type, float v)
{
    uint16_t half = type == SYNTH_F16 ? f32_to_f16_cut(v) : f32_to_bf16(v);
    if (type == SYNTH_F32)
        memcpy(at, &v, 4);
    else
        memcpy(at, &half, 2);
}

bool synth_values(struct tensor_writer *w, struct synth_random *r, enum synth_type type,
                  const struct synth_values *v, struct err *e)
{
    static _Thread_local uint8_t chunk[CHUNK];
    size_t size = value_size(type), per_chunk = CHUNK / size;
    /* 16 random bits a value: uniform over [-sqrt 3, sqrt 3) deviations */
    float step = (float)(v->deviation * sqrt(3.0) / 32768), middle = (float)v->mean;
    for (uint64_t at = 0; at < v->n; at += per_chunk) {
        size_t here = v->n - at < per_chunk ? (size_t)(v->n - at) : per_chunk;
        uint64_t bits = 0;
        for (size_t i = 0; i < here; i++) {
            bits = i % 4 ? bits >> 16 : next(r);
            put_value(chunk + i * size, type, middle + step * ((float)(bits & 0xffff) - 32767.5f));
        }
        if (!tensor_writer_put(w, chunk, here * size, e))
            return false;
    }
    return true;
}

bool synth_codes(struct tensor_writer *w, struct synth_random *r, const struct synth_format *f,
                 uint64_t values, struct err *e)
{
    static _Thread_local uint8_t chunk[CHUNK];
    uint64_t bytes = values * (uint64_t)f->bits / 8;
    for (uint64_t at = 0; at < bytes; at += CHUNK) {
        size_t here = bytes - at < CHUNK ? (size_t)(bytes - at) : CHUNK;
        synth_bytes(r, chunk, here);
        if (!tensor_writer_put(w, chunk, here, e))
            return false;
    }
    return true;
}

/* Deviation of uniform codes around their middle. */
static double code_deviation(const struct synth_format *f)
{
    double n = (double)(1u << f->bits);
    return f->type == SYNTH_MXFP4 ? 2.926 /* of the sixteen FP4 values */ : sqrt((n * n - 1) / 12);
}

/* n bytes, each one of the two at random. */
static bool put_bytes(struct tensor_writer *w, struct synth_random *r, const uint8_t either[2],
                      uint64_t n, struct err *e)
{
    static _Thread_local uint8_t chunk[CHUNK];
    for (uint64_t at = 0; at < n; at += CHUNK) {
        size_t here = n - at < CHUNK ? (size_t)(n - at) : CHUNK;
        synth_bytes(r, chunk, here);
        for (size_t i = 0; i < here; i++)
            chunk[i] = either[chunk[i] & 1];
        if (!tensor_writer_put(w, chunk, here, e))
            return false;
    }
    return true;
}

bool synth_scales(struct tensor_writer *w, struct synth_random *r, const struct synth_format *f,
                  const struct synth_values *v, struct err *e)
{
    double scale = v->deviation / code_deviation(f);
    uint64_t groups = v->n / (uint64_t)f->group;
    if (f->type == SYNTH_AFFINE)
        return synth_values(w, r, SYNTH_BF16, &(struct synth_values){.n = groups, .mean = scale},
                            e);
    /* powers of two on both sides of the wanted scale, in equal shares */
    int exponent = (int)floor(log2(scale)) + 127;
    return put_bytes(w, r, (const uint8_t[2]){(uint8_t)exponent, (uint8_t)(exponent + 1)}, groups,
                     e);
}

bool synth_biases(struct tensor_writer *w, const struct synth_format *f, uint64_t values,
                  double deviation, struct err *e)
{
    struct synth_random unused = {{1, 2, 3, 4}};
    float scale = bf16_to_f32(f32_to_bf16((float)(deviation / code_deviation(f))));
    double middle = ((1u << f->bits) - 1) / 2.0;
    struct synth_values biases = {.n = values / (uint64_t)f->group,
                                  .mean = -middle * (double)scale};
    return synth_values(w, &unused, SYNTH_BF16, &biases, e);
}
