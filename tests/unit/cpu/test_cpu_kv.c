/* Keys and values in fewer bits: rotation, storing and attention of every instruction set against
 * plain C, over odd sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/kernels/kv_layout.h"
#include "engine/cpu/kernels/kv_pack.h"
#include "tests/unit/support/guarded.h"

enum { HEADS = 2, BLOCKS = 12, MAX_D = 256, MAX_QUERIES = 16, MAX_TOKENS = BLOCKS * KV_TOKENS };

static const int32_t table[BLOCKS] = {7, 2, 11, 0, 5, 9, 1, 3, 10, 4, 8, 6};
static const enum kv_type types[] = {KV_Q8, KV_K8V4};
static const int sizes[] = {16, 32, 48, 64, 80, 96, 128, 256};

static float random_unit(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / 8388608.0f - 1;
}

/* With outliers, as heads of models have them. */
static void random_head(unsigned *seed, int d, float *out)
{
    for (int i = 0; i < d; i++)
        out[i] = random_unit(seed) * (i % 37 == 5 ? 12.0f : 1.0f);
}

static struct kv_view storage(int d, enum kv_type type)
{
    struct kv_view kv = {.n_kv_head = HEADS, .d_head = d, .type = type};
    kv.block_bytes = backend_block_bytes(HEADS, d, type);
    kv.data = guarded_alloc(BLOCKS * kv.block_bytes, 64);
    return kv;
}

static double dot(const float *a, const float *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static void test_rotating_keeps_products_and_undoes_itself(void **state)
{
    unsigned seed = 3;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int j = 0; kernels_available(j); j++) {
            const struct kernels *k = kernels_available(j);
            const int d = sizes[s];
            float q[MAX_D], key[MAX_D], turned[MAX_D], plain[MAX_D];
            random_head(&seed, d, q);
            random_head(&seed, d, key);
            const double want = dot(q, key, d), length = sqrt(dot(q, q, d) * dot(key, key, d));
            memcpy(turned, q, sizeof q);
            memcpy(plain, q, sizeof q);
            k->rotate(turned, d);
            kv_pack_rotate(plain, d);
            assert_memory_equal(turned, plain, (size_t)d * sizeof *plain);
            assert_memory_not_equal(turned, q, (size_t)d * sizeof *q);
            k->rotate(key, d);
            assert_true(fabs(dot(turned, key, d) - want) < 1e-6 * length);
            k->rotate(turned, d);
            for (int i = 0; i < d; i++)
                assert_true(fabsf(turned[i] - q[i]) < 1e-5f);
        }
}

static void test_halves_are_rounded_to_nearest(void **state)
{
    static const struct {
        float value;
        uint16_t half;
    } cases[] = {{0, 0},          {1, 0x3c00},       {-2, 0xc000},
                 {65504, 0x7bff}, {1e30f, 0x7bff},   {-1e30f, 0xfbff},
                 {0x1p-24f, 1},   {0x1p-26f, 0},     {0x1p-14f, 0x0400},
                 {2049, 0x6800},  {2051, 0x6802},    {0x1.ffcp-15f, 0x0400},
                 {65519, 0x7bff}, {INFINITY, 0x7bff}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(kv_pack_half(cases[i].value), cases[i].half);
    assert_int_equal(kv_pack_half(NAN) & 0x7e00, 0x7e00);
}

/* Every instruction set stores the same bits; what they stand for is within half a step. */
static void test_what_is_stored_is_near_and_the_same_everywhere(void **state)
{
    unsigned seed = 17;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t y = 0; y < 2; y++) {
            const int d = sizes[s];
            struct kv_view plain = storage(d, types[y]);
            float k[MAX_D], v[MAX_D], turned[2][MAX_D];
            random_head(&seed, d, k);
            random_head(&seed, d, v);
            kernels_generic.store_kv(&plain, 3, 13, 1, k, v);
            memcpy(turned[0], k, sizeof k);
            memcpy(turned[1], v, sizeof v);
            kv_pack_rotate(turned[0], d);
            kv_pack_rotate(turned[1], d);
            double lost[2] = {0};
            for (int i = 0; i < d; i++) {
                lost[0] += pow((double)(kv_pack_key(&plain, 3, 13, 1, i) - turned[0][i]), 2);
                lost[1] += pow((double)(kv_pack_value(&plain, 3, 13, 1, i) - turned[1][i]), 2);
            }
            assert_true(sqrt(lost[0] / dot(k, k, d)) < 0.01);
            assert_true(sqrt(lost[1] / dot(v, v, d)) < (types[y] == KV_Q8 ? 0.01 : 0.12));
            for (int j = 0; kernels_available(j); j++) {
                struct kv_view fast = storage(d, types[y]);
                kernels_available(j)->store_kv(&fast, 3, 13, 1, k, v);
                if (memcmp(fast.data, plain.data, BLOCKS * plain.block_bytes))
                    fail_msg("%s stores other bits, d %d", kernels_available(j)->name, d);
                guarded_free(fast.data);
            }
            guarded_free(plain.data);
        }
}

static void test_zeros_and_extremes_stay_finite(void **state)
{
    static const float levels[] = {0, 1e-12f, 1e-6f, 1e6f, 3e38f};
    for (size_t y = 0; y < 2; y++)
        for (size_t l = 0; l < sizeof levels / sizeof *levels; l++)
            for (int j = 0; kernels_available(j); j++) {
                struct kv_view kv = storage(64, types[y]);
                float k[64] = {0}, q[64] = {0}, out[64], scores[ATTEND_SCORES];
                k[3] = levels[l];
                q[5] = 1;
                kernels_available(j)->store_kv(&kv, table[0], 0, 1, k, k);
                kernels_available(j)->attend(&(struct attend){.kv = &kv,
                                                              .blocks = table,
                                                              .kv_head = 1,
                                                              .to = 1,
                                                              .n_query = 1,
                                                              .q = q,
                                                              .q_stride = 64,
                                                              .scale = 0.125f,
                                                              .out = out,
                                                              .out_stride = 64,
                                                              .scores = scores});
                for (int i = 0; i < 64; i++)
                    assert_true(isfinite(out[i]));
                guarded_free(kv.data);
            }
}

struct attention_case {
    int n_query, d, from, to;
    bool sinks;
};

/* Softmax of q.k in double precision over what is stored. */
static void attend_plain(const struct attention_case *c, const struct kv_view *kv, const float *q,
                         const float *sinks, float *out)
{
    static double score[MAX_TOKENS];
    for (int h = 0; h < c->n_query; h++) {
        double sum = 0, mixed[MAX_D] = {0}, top = c->sinks ? (double)sinks[h] : -1e30;
        for (int t = c->from; t < c->to; t++) {
            score[t] = 0;
            for (int i = 0; i < c->d; i++)
                score[t] += 0.125 * (double)q[h * c->d + i] *
                            (double)kv_pack_key(kv, table[t / 32], t % 32, 1, i);
            top = fmax(top, score[t]);
        }
        if (c->sinks)
            sum = exp((double)sinks[h] - top);
        for (int t = c->from; t < c->to; t++) {
            double p = exp(score[t] - top);
            sum += p;
            for (int i = 0; i < c->d; i++)
                mixed[i] += p * (double)kv_pack_value(kv, table[t / 32], t % 32, 1, i);
        }
        for (int i = 0; i < c->d; i++)
            out[h * c->d + i] = (float)(mixed[i] / sum);
    }
}

static void check_attention(const struct kernels *k, const struct attention_case *c,
                            enum kv_type type)
{
    static float q[MAX_QUERIES * MAX_D], got[MAX_QUERIES * MAX_D], want[MAX_QUERIES * MAX_D],
        scores[ATTEND_SCORES];
    float sinks[MAX_QUERIES], key[MAX_D], value[MAX_D];
    unsigned seed = 99;
    struct kv_view kv = storage(c->d, type);
    for (int i = 0; i < MAX_QUERIES * MAX_D; i++)
        q[i] = random_unit(&seed) * 2;
    for (int i = 0; i < MAX_QUERIES; i++)
        sinks[i] = random_unit(&seed) * 3;
    for (int t = 0; t < c->to; t++) {
        random_head(&seed, c->d, key);
        random_head(&seed, c->d, value);
        k->store_kv(&kv, table[t / 32], t % 32, 1, key, value);
    }
    struct attend a = {.kv = &kv,
                       .blocks = table,
                       .kv_head = 1,
                       .from = c->from,
                       .to = c->to,
                       .n_query = c->n_query,
                       .q = q,
                       .q_stride = (size_t)c->d,
                       .scale = 0.125f,
                       .sinks = c->sinks ? sinks : NULL,
                       .out = got,
                       .out_stride = (size_t)c->d,
                       .scores = scores};
    k->attend(&a);
    attend_plain(c, &kv, q, sinks, want);
    for (int i = 0; i < c->n_query * c->d; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-3f))
            fail_msg("%s, %s, d %d: value %d is %.9g, want %.9g", k->name, kv_type_name(type), c->d,
                     i, (double)got[i], (double)want[i]);
    float all[MAX_D];
    memcpy(all, got + (c->n_query - 1) * c->d, (size_t)c->d * sizeof *all);
    a.q += (c->n_query - 1) * c->d; /* the last head alone gives the same bits */
    a.n_query = 1;
    a.sinks = c->sinks ? sinks + c->n_query - 1 : NULL;
    k->attend(&a);
    assert_memory_equal(got, all, (size_t)c->d * sizeof *all);
    guarded_free(kv.data);
}

static void test_attention_reads_what_is_stored(void **state)
{
    static const struct attention_case cases[] = {
        {1, 64, 0, 1, false},      {4, 64, 0, 33, false},  {8, 128, 0, 300, true},
        {4, 128, 250, 370, true},  {6, 48, 5, 256, false}, {3, 80, 17, 65, false},
        {16, 256, 120, 128, true}, {5, 64, 31, 32, true},  {13, 96, 0, 270, false},
        {8, 32, 40, 384, true},    {2, 16, 0, 100, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int j = 0; kernels_available(j); j++)
            for (size_t y = 0; y < 2; y++)
                check_attention(kernels_available(j), &cases[i], types[y]);
}

/* What is promised of the formats: tokens in the bytes of 16 bits. */
static void test_formats_hold_what_they_promise(void **state)
{
    for (int d = 64; d <= 256; d *= 2) {
        const double half = (double)kv_head_bytes(d, KV_F16);
        assert_true(half / (double)kv_head_bytes(d, KV_Q8) >= 1.9);
        assert_true(half / (double)kv_head_bytes(d, KV_K8V4) >= 2.5);
    }
    assert_int_equal(kv_head_bytes(128, KV_Q8), 260);
    assert_int_equal(kv_head_bytes(128, KV_K8V4), 202);
    assert_int_equal(kv_head_bytes(48, KV_K8V4), 50 + 24 + 6);
    assert_int_equal(backend_block_bytes(4, 128, KV_Q8), 32 * 4 * 260);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rotating_keeps_products_and_undoes_itself),
        cmocka_unit_test(test_halves_are_rounded_to_nearest),
        cmocka_unit_test(test_what_is_stored_is_near_and_the_same_everywhere),
        cmocka_unit_test(test_zeros_and_extremes_stay_finite),
        cmocka_unit_test(test_attention_reads_what_is_stored),
        cmocka_unit_test(test_formats_hold_what_they_promise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
