/* DeltaNet's shaders against the cpu backend in plain f32: one random layer in many sizes, prefill
 * of several sequences in one step, then decoding; outputs of the layer and the states, within 2e-5
 * of their range. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/backend/backend.h"

enum { D = 64, D_FF = 32, VOCAB = 64, SEQUENCES = 3, MAX_SHOWN = 64 };

struct size {
    int32_t n_k, n_v, d_k, d_v, n_conv;
    bool tiled;
};

struct shown {  /* what one backend handed out, in order */
    int n, now; /* now: number of the step */
    int step[MAX_SHOWN];
    char name[MAX_SHOWN][64];
    float *at[MAX_SHOWN];
    size_t values[MAX_SHOWN];
};

static uint64_t seed = 88172645463325252ull;
static float *owned[32];
static int n_owned;

static float *random_floats(size_t n, float scale)
{
    float *v = malloc(n * sizeof *v);
    assert_non_null(v);
    for (size_t i = 0; i < n; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        v[i] = ((float)(seed >> 40) / (1 << 23) - 1) * scale;
    }
    return owned[n_owned++] = v;
}

static struct weight matrix(int32_t rows, int32_t cols, float scale)
{
    return (struct weight){.type = WEIGHT_F32,
                           .n_matrix = 1,
                           .rows = rows,
                           .cols = cols,
                           .row_bytes = (size_t)cols * 4,
                           .matrix_bytes = (size_t)rows * (size_t)cols * 4,
                           .name = "random",
                           .data = random_floats((size_t)rows * (size_t)cols, scale)};
}

static struct vector vector(int32_t n, float scale)
{
    return (struct vector){random_floats((size_t)n, scale), n};
}

static void make_plan(const struct size *s, struct model_plan *p, struct layer_plan *l)
{
    struct delta_net_plan *d = &l->delta_net;
    int32_t channels = 2 * s->n_k * s->d_k + s->n_v * s->d_v;
    *l = (struct layer_plan){.mixer = MIXER_DELTA_NET,
                             .kv_index = -1,
                             .ffn = FFN_DENSE,
                             .mixer_norm = vector(D, 1),
                             .ffn_norm = vector(D, 1)};
    *d = (struct delta_net_plan){.n_k_head = s->n_k,
                                 .n_v_head = s->n_v,
                                 .d_k = s->d_k,
                                 .d_v = s->d_v,
                                 .n_conv = s->n_conv,
                                 .tiled_heads = s->tiled,
                                 .w_qkv = matrix(channels, D, 0.3f),
                                 .w_z = matrix(s->n_v * s->d_v, D, 0.3f),
                                 .w_a = matrix(s->n_v, D, 0.5f),
                                 .w_b = matrix(s->n_v, D, 0.5f),
                                 .w_out = matrix(D, s->n_v * s->d_v, 0.1f),
                                 .conv = vector(channels * s->n_conv, 0.5f),
                                 .dt_bias = vector(s->n_v, 1),
                                 .norm = vector(s->d_v, 1)};
    float *a_log = random_floats((size_t)s->n_v, 1);
    for (int32_t i = 0; i < s->n_v; i++)
        a_log[i] = -0.1f - fabsf(a_log[i]);
    d->a_log = (struct vector){a_log, s->n_v};
    l->dense = (struct mlp_plan){.d_ff = D_FF,
                                 .gate = matrix(D_FF, D, 0.1f),
                                 .up = matrix(D_FF, D, 0.1f),
                                 .down = matrix(D, D_FF, 0.1f)};
    *p = (struct model_plan){.family = "test",
                             .n_layer = 1,
                             .d_model = D,
                             .n_vocab = VOCAB,
                             .n_ctx = 256,
                             .n_recurrent = 1,
                             .norm_eps = 1e-6f,
                             .embed = matrix(VOCAB, D, 1),
                             .final_norm = vector(D, 1),
                             .layers = l};
    p->head = p->embed;
}

static void keep(void *context, const char *name, const void *data, int32_t rows, int32_t cols,
                 bool is_int)
{
    struct shown *s = context;
    const char *what = strrchr(name, '.');
    if (!what || (strcmp(what, ".mixer") && strcmp(what, ".conv") && strcmp(what, ".recurrent")))
        return;
    assert_true(s->n < MAX_SHOWN);
    s->values[s->n] = (size_t)rows * (size_t)cols;
    s->step[s->n] = s->now;
    snprintf(s->name[s->n], sizeof s->name[0], "%s", name);
    s->at[s->n] = malloc(s->values[s->n] * sizeof(float));
    assert_non_null(s->at[s->n]);
    memcpy(s->at[s->n], data, s->values[s->n] * sizeof(float));
    s->n++;
}

/* Backends show a step's parts in different orders; one name's sequences come in order. */
static int find_like(const struct shown *s, const struct shown *other, int i)
{
    int nth = 0;
    for (int j = 0; j < i; j++)
        nth += other->step[j] == other->step[i] && !strcmp(other->name[j], other->name[i]);
    for (int j = 0; j < s->n; j++)
        if (s->step[j] == other->step[i] && !strcmp(s->name[j], other->name[i]) && nth-- == 0)
            return j;
    fail_msg("%s of step %d is not shown", other->name[i], other->step[i]);
    return -1;
}

static void run(const struct backend_ops *ops, const struct model_plan *plan, struct shown *shown)
{
    static const int32_t counts[][SEQUENCES] = {{1, 37, 2}, {1, 1, 1}, {0, 0, 1}, {18, 1, 0}};
    struct backend_params p = {.n_blocks = 2 * SEQUENCES,
                               .n_states = SEQUENCES,
                               .max_rows = 64,
                               .max_sequences = SEQUENCES,
                               .n_threads = 1,
                               .exact = true,
                               .dump = keep,
                               .dump_context = shown};
    static const int32_t blocks[SEQUENCES][2] = {{0, 1}, {2, 3}, {4, 5}};
    int32_t tokens[64], done[SEQUENCES] = {0};
    struct step_row rows[64];
    struct err e = {0};
    struct backend *b = ops->open(plan, &p, &e);
    if (!b)
        fail_msg("%s", e.text);
    for (int i = 0; i < 64; i++)
        tokens[i] = (i * i * 7 + i) % VOCAB;
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        struct step_sequence q[SEQUENCES];
        int n = 0;
        for (int i = 0; i < SEQUENCES; i++) {
            if (counts[k][i]) {
                q[n++] = (struct step_sequence){.tokens = tokens + i + done[i] % 8,
                                                .n_tokens = counts[k][i],
                                                .start = done[i],
                                                .blocks = blocks[i],
                                                .state = SEQUENCES - 1 - i};
                done[i] += counts[k][i];
            }
        }
        struct step s = {.sequences = q, .n_sequences = n, .n_top = 1};
        shown->now = (int)k;
        if (!ops->step(b, &s, rows, &e))
            fail_msg("%s", e.text);
    }
    ops->close(&b);
}

static void compare(const struct shown *want, const struct shown *got, const struct size *s)
{
    assert_int_equal(got->n, want->n);
    assert_true(want->n > 0);
    for (int i = 0; i < want->n; i++) {
        int at = find_like(got, want, i);
        double top = 0, worst = 0;
        assert_int_equal(got->values[at], want->values[i]);
        for (size_t v = 0; v < want->values[i]; v++) {
            top = fmax(top, fabs((double)want->at[i][v]));
            double d = fabs((double)want->at[i][v] - (double)got->at[at][v]);
            worst = d <= worst ? worst : d;
        }
        if (!(worst <= 2e-5 * top)) {
            fail_msg("%d x %d, %d x %d heads, conv %d: %s of step %d differs by %g of %g", s->n_k,
                     s->d_k, s->n_v, s->d_v, s->n_conv, want->name[i], want->step[i], worst, top);
        }
    }
}

static void test_every_size_agrees_with_the_cpu(void **state)
{
    static const struct size sizes[] = {
        {1, 1, 32, 32, 4, false}, {2, 6, 32, 64, 4, true},    {2, 4, 64, 32, 3, false},
        {1, 3, 96, 160, 2, true}, {4, 8, 128, 128, 4, false},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct model_plan plan;
        struct layer_plan layer;
        struct shown want = {0}, got = {0};
        make_plan(&sizes[i], &plan, &layer);
        run(&cpu_backend, &plan, &want);
        run(&vulkan_backend, &plan, &got);
        compare(&want, &got, &sizes[i]);
        for (int k = 0; k < MAX_SHOWN; k++) {
            free(want.at[k]);
            free(got.at[k]);
        }
        while (n_owned)
            free(owned[--n_owned]);
    }
}

static void test_other_sizes_are_refused(void **state)
{
    static const struct size sizes[] = {{1, 1, 48, 32, 4, false},
                                        {1, 1, 32, 16, 4, false},
                                        {2, 3, 32, 32, 4, false},
                                        {1, 1, 512, 32, 4, false}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct model_plan plan;
        struct layer_plan layer;
        struct backend_memory m;
        struct err e = {0};
        struct backend_params p = {.n_states = 1, .max_rows = 8, .max_sequences = 1};
        make_plan(&sizes[i], &plan, &layer);
        assert_false(vulkan_backend.probe->estimate(&plan, &p, &m, &e));
        assert_int_equal(e.code, ERR_UNSUPPORTED);
        while (n_owned)
            free(owned[--n_owned]);
    }
}

int main(void)
{
    struct err e = {0};
    if (!vulkan_backend.probe->usable(&e)) {
        fprintf(stderr, "skipped: %s\n", e.text);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size_agrees_with_the_cpu),
        cmocka_unit_test(test_other_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
