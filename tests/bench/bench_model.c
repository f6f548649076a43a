/* bench_model.h: a random model of a real shape (Qwen3-30B-A3B), made in memory. */
#include "tests/bench/bench_model.h"

#include <stdlib.h>
#include <string.h>

enum {
    D = 2048,
    D_FF = 768,
    N_EXPERT = 128,
    N_USED = 8,
    N_HEAD = 32,
    N_KV = 4,
    D_HEAD = 128,
    VOCAB = 151936
};

static uint8_t *random_bytes(size_t n)
{
    uint64_t s = 88172645463325252ull ^ n, *p = malloc(n + 8);
    for (size_t i = 0; i < n / 8 + 1; i++) {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        p[i] = s;
    }
    return (uint8_t *)p;
}

static uint16_t bf16(float v)
{
    uint32_t u;
    memcpy(&u, &v, 4);
    return (uint16_t)(u >> 16);
}

static struct weight affine(int bits, int32_t n, int32_t rows, int32_t cols, const char *name)
{
    size_t groups = (size_t)n * (size_t)rows * (size_t)cols / 64;
    uint16_t *scales = malloc(groups * 2), *biases = malloc(groups * 2);
    float scale = 0.06f / (float)(1 << bits);
    for (size_t i = 0; i < groups; i++) {
        scales[i] = bf16(scale);
        biases[i] = bf16(-0.03f);
    }
    size_t row = (size_t)cols * (size_t)bits / 8;
    return (struct weight){.type = WEIGHT_AFFINE,
                           .bits = bits,
                           .group = 64,
                           .scale_type = SCALE_BF16,
                           .n_matrix = n,
                           .rows = rows,
                           .cols = cols,
                           .data = random_bytes((size_t)n * (size_t)rows * row),
                           .scales = scales,
                           .biases = biases,
                           .row_bytes = row,
                           .matrix_bytes = row * (size_t)rows,
                           .scale_row_bytes = (size_t)cols / 32,
                           .scale_matrix_bytes = (size_t)cols / 32 * (size_t)rows,
                           .name = name};
}

static struct weight mxfp4(int32_t n, int32_t rows, int32_t cols, const char *name)
{
    size_t blocks = (size_t)n * (size_t)rows * (size_t)cols / 32, row = (size_t)cols / 2;
    uint8_t *scales = malloc(blocks);
    memset(scales, 127 - 7, blocks);
    return (struct weight){.type = WEIGHT_MXFP4,
                           .bits = 4,
                           .group = 32,
                           .scale_type = SCALE_E8M0,
                           .n_matrix = n,
                           .rows = rows,
                           .cols = cols,
                           .data = random_bytes((size_t)n * (size_t)rows * row),
                           .scales = scales,
                           .row_bytes = row,
                           .matrix_bytes = row * (size_t)rows,
                           .scale_row_bytes = (size_t)cols / 32,
                           .scale_matrix_bytes = (size_t)cols / 32 * (size_t)rows,
                           .name = name};
}

static struct vector ones(int32_t n)
{
    float *v = malloc((size_t)n * sizeof *v);
    for (int32_t i = 0; i < n; i++)
        v[i] = 1;
    return (struct vector){v, n};
}

static struct weight expert(const char *format, int32_t rows, int32_t cols)
{
    return format[0] == 'm' ? mxfp4(N_EXPERT, rows, cols, "experts")
                            : affine(format[1] == '8' ? 8 : 4, N_EXPERT, rows, cols, "experts");
}

static struct weight dense(const char *format, int32_t rows, int32_t cols)
{
    return !strcmp(format, "mx") ? mxfp4(1, rows, cols, "dense")
                                 : affine(!strcmp(format, "a4") ? 4 : 8, 1, rows, cols, "dense");
}

struct model_plan *bench_model_plan(const char *format, int32_t n_layer)
{
    struct model_plan *p = calloc(1, sizeof *p);
    struct layer_plan l = {
        .mixer_norm = ones(D), .ffn_norm = ones(D), .state_index = -1, .ffn = FFN_MOE};
    struct attention_plan *a = &l.attention;
    *p = (struct model_plan){.family = "qwen3_moe",
                             .n_layer = n_layer,
                             .d_model = D,
                             .n_vocab = VOCAB,
                             .n_ctx = 40960,
                             .n_attention = n_layer,
                             .norm_eps = 1e-6f,
                             .final_norm = ones(D)};
    a->n_head = N_HEAD;
    a->n_kv_head = N_KV;
    a->d_head = D_HEAD;
    a->scale = 0.08838835f;
    a->rope.n_dims = D_HEAD;
    a->rope.scale = 1;
    for (int i = 0; i < D_HEAD / 2; i++)
        a->rope.inv_freq[i] = 1.0f / (float)(1 << (i / 4));
    a->wq = dense(format, N_HEAD * D_HEAD, D);
    a->wk = dense(format, N_KV * D_HEAD, D);
    a->wv = dense(format, N_KV * D_HEAD, D);
    a->wo = dense(format, D, N_HEAD * D_HEAD);
    a->q_norm = ones(D_HEAD);
    a->k_norm = ones(D_HEAD);
    l.moe = (struct moe_plan){.n_expert = N_EXPERT,
                              .n_used = N_USED,
                              .d_ff = D_FF,
                              .normalize = true,
                              .scale = 1,
                              .router = affine(8, 1, N_EXPERT, D, "router"),
                              .gate = expert(format, D_FF, D),
                              .up = expert(format, D_FF, D),
                              .down = expert(format, D, D_FF)};
    p->embed = affine(!strcmp(format, "a4") ? 4 : 8, 1, VOCAB, D, "embed");
    p->head = p->embed;
    p->layers = malloc((size_t)n_layer * sizeof l);
    for (int32_t i = 0; i < n_layer; i++) {
        l.kv_index = i;
        p->layers[i] = l;
    }
    return p;
}
