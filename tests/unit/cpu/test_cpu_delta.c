/* DeltaNet's kernels of every instruction set that this CPU has against sums in double precision,
 * over sizes that leave some vectors over; and that a sequence in pieces gives the bits of the
 * whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "tests/unit/support/cpu_weights.h"
#include "engine/cpu/kernels/kernels.h"

enum { ROWS = 9, STRIDE = 700, MAX_K = 128, MAX_V = 256 };

static unsigned seed = 7;

static void fill(float *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        at[i] = random_unit(&seed);
}

static void expect(const struct kernels *k, const char *what, float got, double want, double scale)
{
    if (!(fabs((double)got - want) <= 3e-6 * scale))
        fail_msg("%s %s: %.9g, want %.9g", k->name, what, (double)got, want);
}

static void check_convolution(const struct kernels *k, int32_t channels, int32_t n_taps)
{
    static float weight[MAX_V * 4], past[3 * STRIDE], values[ROWS * STRIDE],
        history[(ROWS + 3) * STRIDE];
    static float past_again[3 * STRIDE], values_again[ROWS * STRIDE];
    fill(weight, (size_t)(channels * (n_taps + 1)));
    fill(history, sizeof history / sizeof *history);
    memcpy(past, history, sizeof past);
    memcpy(values, history + n_taps * STRIDE, sizeof values);
    memcpy(past_again, past, sizeof past);
    memcpy(values_again, values, sizeof values);
    struct convolution c = {.weight = weight,
                            .past = past,
                            .values = values,
                            .past_stride = STRIDE,
                            .stride = STRIDE,
                            .n_taps = n_taps,
                            .channels = channels,
                            .n = ROWS};
    k->convolve(&c);
    for (int32_t t = 0; t < ROWS; t++)
        for (int32_t i = 0; i < STRIDE; i++) {
            double sum = 0;
            for (int32_t tap = 0; i < channels && tap <= n_taps; tap++)
                sum += (double)weight[i * (n_taps + 1) + tap] *
                       (double)history[(t + tap) * STRIDE + i];
            if (i < channels)
                expect(k, "convolve", values[t * STRIDE + i], sum / (1 + exp(-sum)), 4);
            else
                assert_true(values[t * STRIDE + i] == history[(t + n_taps) * STRIDE + i]);
        }
    for (int32_t tap = 0; tap < n_taps; tap++)
        assert_memory_equal(past + tap * STRIDE, history + (ROWS + tap) * STRIDE,
                            (size_t)channels * sizeof *past);
    for (int32_t t = 0; t < ROWS; t += c.n) {
        c.past = past_again;
        c.values = values_again + t * STRIDE;
        c.n = t + 2 > ROWS ? 1 : t % 3 + 1;
        k->convolve(&c);
    }
    assert_memory_equal(values, values_again, sizeof values);
    for (int32_t tap = 0; tap < n_taps; tap++)
        assert_memory_equal(past + tap * STRIDE, past_again + tap * STRIDE,
                            (size_t)channels * sizeof *past);
}

static void test_convolution(void **state)
{
    static const int32_t channels[] = {16, 32, 48, 128, 256};
    for (int j = 0; kernels_available(j); j++)
        for (size_t i = 0; i < sizeof channels / sizeof *channels; i++)
            for (int32_t taps = 1; taps <= CONVOLUTION_MAX_TAPS; taps++)
                check_convolution(kernels_available(j), channels[i], taps);
}

static void test_unit_vectors(void **state)
{
    float v[MAX_V], got[MAX_V];
    for (int j = 0; kernels_available(j); j++)
        for (int32_t n = 1; n <= 130; n += 43) {
            double sum = 0;
            fill(v, (size_t)n);
            memcpy(got, v, sizeof got);
            kernels_available(j)->l2_normalize(got, n, 0.25f);
            for (int32_t i = 0; i < n; i++)
                sum += (double)v[i] * (double)v[i];
            for (int32_t i = 0; i < n; i++)
                expect(kernels_available(j), "unit", got[i], 0.25 * (double)v[i] / sqrt(sum + 1e-6),
                       1);
        }
}

/* As in the paper: decay, correct what is held under k, read by q. */
static void scan_plain(const struct delta_scan *s, double *state, double *out)
{
    for (int32_t t = 0; t < s->n; t++)
        for (int32_t j = 0; j < s->d_v; j++) {
            const float *q = s->q + (size_t)t * s->stride, *k = s->k + (size_t)t * s->stride;
            double held = 0, read = 0, decay = (double)s->decay[(size_t)t * s->gate_stride];
            for (int32_t i = 0; i < s->d_k; i++) {
                state[i * s->d_v + j] *= decay;
                held += state[i * s->d_v + j] * (double)k[i];
            }
            double by = ((double)s->v[(size_t)t * s->stride + (size_t)j] - held) *
                        (double)s->strength[(size_t)t * s->gate_stride];
            for (int32_t i = 0; i < s->d_k; i++) {
                state[i * s->d_v + j] += by * (double)k[i];
                read += state[i * s->d_v + j] * (double)q[i];
            }
            out[t * s->d_v + j] = read;
        }
}

static void check_scan(const struct kernels *k, int32_t d_k, int32_t d_v)
{
    static float rows[ROWS * STRIDE], gates[ROWS * 6], start[MAX_K * MAX_V], now[MAX_K * MAX_V],
        out[ROWS * STRIDE];
    static float again[MAX_K * MAX_V], out_again[ROWS * STRIDE];
    static double want_state[MAX_K * MAX_V], want[ROWS * MAX_V];
    size_t values = (size_t)(d_k * d_v);
    fill(rows, sizeof rows / sizeof *rows);
    fill(start, values);
    for (int i = 0; i < ROWS * 6; i++)
        gates[i] = 0.5f + 0.5f * random_unit(&seed); /* 0 .. 1 */
    for (int32_t t = 0; t < ROWS; t++) {             /* as delta_net.c gives them */
        k->l2_normalize(rows + t * STRIDE, d_k, 1 / sqrtf((float)d_k));
        k->l2_normalize(rows + t * STRIDE + d_k, d_k, 1);
    }
    for (size_t i = 0; i < values; i++)
        want_state[i] = (double)start[i];
    memcpy(now, start, sizeof now);
    memcpy(again, start, sizeof again);
    struct delta_scan s = {.state = now,
                           .q = rows,
                           .k = rows + d_k,
                           .v = rows + 2 * d_k,
                           .stride = STRIDE,
                           .decay = gates,
                           .strength = gates + 3,
                           .gate_stride = 6,
                           .out = out,
                           .out_stride = STRIDE,
                           .d_k = d_k,
                           .d_v = d_v,
                           .n = ROWS};
    scan_plain(&s, want_state, want);
    k->delta_scan(&s);
    for (size_t i = 0; i < values; i++)
        expect(k, "state", now[i], want_state[i], 4);
    for (int32_t i = 0; i < ROWS * d_v; i++)
        expect(k, "out", out[i / d_v * STRIDE + i % d_v], want[i], 4);
    for (int32_t t = 0; t < ROWS; t++) {
        struct delta_scan one = s;
        one.state = again;
        one.q += t * STRIDE;
        one.k += t * STRIDE;
        one.v += t * STRIDE;
        one.decay += t * 6;
        one.strength += t * 6;
        one.out = out_again + t * STRIDE;
        one.n = 1;
        k->delta_scan(&one);
    }
    assert_memory_equal(now, again, values * sizeof *now);
    for (int32_t t = 0; t < ROWS; t++)
        assert_memory_equal(out + t * STRIDE, out_again + t * STRIDE, (size_t)d_v * sizeof *out);
}

static void test_delta_rule(void **state)
{
    static const int32_t sizes[][2] = {{16, 16}, {32, 48}, {128, 128}, {48, 256}, {64, 80}};
    for (int j = 0; kernels_available(j); j++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            check_scan(kernels_available(j), sizes[i][0], sizes[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolution),
        cmocka_unit_test(test_unit_vectors),
        cmocka_unit_test(test_delta_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
