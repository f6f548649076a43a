/* Makes the random model of recurrent_rig.h: its numbers and its plan. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/support/cpu_weights.h"
#include "tests/unit/vulkan/recurrent_rig.h"

enum {
    D = 256,
    D_FEW = 512, /* as resident_few.comp takes it, and so its experts' columns */
    MIXED = 256, /* of either mixer; of attention alone twice as many */
    KEY_HEADS = 2,
    VALUE_HEADS = 4,
    D_HEAD = 64,
    D_FF = 64,
    D_FF_BLOCKS = 256, /* of whole K-blocks */
    D_FF_FEW = 128,
    EXPERTS = 12,
    USED = 4,
    TAPS = 4,
    MATRICES = 128,
    VECTORS = 64
};

static struct random_weight matrices[MATRICES];
static float *vectors[VECTORS];
static int n_matrices, n_vectors;
static unsigned seed;
static struct rig {
    bool alone;  /* attention in all layers */
    bool blocks; /* K-blocks */
    bool has_shared;
    int d_model, d_ff;
} rig;
static struct layer_plan layers[RECURRENT_LAYERS];
static struct model_plan plan;

static struct weight stack(const char *form, int n, int rows, int cols)
{
    assert_true(n_matrices < MATRICES);
    struct random_weight *r = &matrices[n_matrices++];
    random_weight_init(r, weight_form_of(form), n, rows, cols, 0, ++seed);
    return r->w;
}

static struct weight matrix(int rows, int cols)
{
    return stack(rig.blocks ? "q4_k" : "q8_0", 1, rows, cols);
}

/* In the order of layers: v and the down before it make all four pairs that Q4_K_M has. */
static struct weight value_matrix(int layer, int rows, int cols)
{
    static const char *const forms[RECURRENT_LAYERS] = {"q6_k", "q4_k", "q6_k", "q6_k", "q4_k"};
    return rig.blocks ? stack(forms[layer], 1, rows, cols) : matrix(rows, cols);
}

static struct weight down_matrices(int layer, int rows, int cols)
{
    static const char *const forms[RECURRENT_LAYERS] = {"q4_k", "q4_k", "q6_k", "q6_k", "q5_k"};
    return stack(rig.blocks ? forms[layer] : "mxfp4 block", EXPERTS, rows, cols);
}

static struct vector vector(int n, float middle, float spread)
{
    assert_true(n_vectors < VECTORS);
    float *v = vectors[n_vectors++] = malloc((size_t)n * sizeof *v);
    assert_non_null(v);
    for (int i = 0; i < n; i++)
        v[i] = middle + spread * random_unit(&seed);
    return (struct vector){v, n};
}

static void add_delta_net(struct layer_plan *l)
{
    const int channels = (2 * KEY_HEADS + VALUE_HEADS) * D_HEAD;
    l->mixer = MIXER_DELTA_NET;
    l->kv_index = -1;
    l->state_index = plan.n_recurrent++;
    l->delta_net = (struct delta_net_plan){.n_k_head = KEY_HEADS,
                                           .n_v_head = VALUE_HEADS,
                                           .d_k = D_HEAD,
                                           .d_v = D_HEAD,
                                           .n_conv = TAPS,
                                           .tiled_heads = true,
                                           .w_qkv = matrix(channels, rig.d_model),
                                           .w_z = matrix(MIXED, rig.d_model),
                                           .w_a = matrix(VALUE_HEADS, rig.d_model),
                                           .w_b = matrix(VALUE_HEADS, rig.d_model),
                                           .w_out = matrix(rig.d_model, MIXED),
                                           .conv = vector(channels * TAPS, 0, 0.5f),
                                           .a_log = vector(VALUE_HEADS, -0.2f, 0.1f),
                                           .dt_bias = vector(VALUE_HEADS, 0, 1),
                                           .norm = vector(D_HEAD, 1, 0.5f)};
}

/* By itself as attn_units.comp and resident.comp chain it: whole heads of 128 turn, no gates. */
static void add_attention(struct layer_plan *l, int layer)
{
    const int mixed = rig.alone ? 2 * MIXED : MIXED, d_head = rig.alone ? 128 : D_HEAD,
              turning = rig.alone ? d_head : 16;
    l->mixer = MIXER_ATTENTION;
    l->state_index = -1;
    l->kv_index = plan.n_attention++;
    l->attention = (struct attention_plan){.n_head = mixed / d_head,
                                           .n_kv_head = 1,
                                           .d_head = d_head,
                                           .scale = 1 / sqrtf((float)d_head),
                                           .rope = {.n_dims = turning, .scale = 1},
                                           .wq = matrix(rig.alone ? mixed : 2 * mixed, rig.d_model),
                                           .wk = matrix(d_head, rig.d_model),
                                           .wv = value_matrix(layer, d_head, rig.d_model),
                                           .wo = matrix(rig.d_model, mixed),
                                           .q_norm = vector(d_head, 1, 0.5f),
                                           .k_norm = vector(d_head, 1, 0.5f),
                                           .output_gate = !rig.alone};
    for (int i = 0; i < turning / 2; i++)
        l->attention.rope.inv_freq[i] = powf(10000, -(float)i / (float)(turning / 2));
}

static void add_experts(struct layer_plan *l, int layer)
{
    const char *form = rig.blocks ? "q4_k" : "mxfp4 block";
    l->ffn = FFN_MOE;
    l->moe = (struct moe_plan){
        .n_expert = EXPERTS,
        .n_used = USED,
        .d_ff = rig.d_ff,
        .normalize = true,
        .scale = 1,
        .router = matrix(EXPERTS, rig.d_model),
        .gate = stack(form, EXPERTS, rig.d_ff, rig.d_model),
        .up = stack(form, EXPERTS, rig.d_ff, rig.d_model),
        .down = down_matrices(layer, rig.d_model, rig.d_ff),
        .has_shared = rig.has_shared,
    };
    if (!rig.has_shared)
        return;
    l->moe.shared = (struct mlp_plan){.d_ff = D_FF,
                                      .gate = matrix(D_FF, rig.d_model),
                                      .up = matrix(D_FF, rig.d_model),
                                      .down = matrix(rig.d_model, D_FF)};
    l->moe.shared_gate = matrix(1, rig.d_model);
}

static const struct model_plan *rig_open(struct rig kind)
{
    rig = kind;
    plan = (struct model_plan){.family = "test",
                               .n_layer = RECURRENT_LAYERS,
                               .d_model = rig.d_model,
                               .n_vocab = RECURRENT_VOCAB,
                               .n_ctx = 64,
                               .norm_eps = 1e-6f,
                               .embed = matrix(RECURRENT_VOCAB, rig.d_model),
                               .head = matrix(RECURRENT_VOCAB, rig.d_model),
                               .final_norm = vector(rig.d_model, 1, 0.5f),
                               .layers = layers};
    for (int i = 0; i < RECURRENT_LAYERS; i++) {
        struct layer_plan *l = &layers[i];
        /* Halves have room for what experts make of so many columns then. */
        const float middle = rig.d_model == D_FEW ? 0.25f : 1;
        *l = (struct layer_plan){.mixer_norm = vector(rig.d_model, 1, 0.5f),
                                 .ffn_norm = vector(rig.d_model, middle, middle / 2)};
        if (rig.alone || i % 4 == 2)
            add_attention(l, i);
        else
            add_delta_net(l);
        add_experts(l, i);
    }
    return &plan;
}

const struct model_plan *recurrent_rig_open(void)
{
    return rig_open((struct rig){.has_shared = true, .d_model = D, .d_ff = D_FF});
}

const struct model_plan *attention_rig_open(void)
{
    return rig_open((struct rig){.alone = true, .has_shared = true, .d_model = D, .d_ff = D_FF});
}

const struct model_plan *blocks_rig_open(void)
{
    return rig_open((struct rig){.alone = true, .blocks = true, .d_model = D, .d_ff = D_FF_BLOCKS});
}

const struct model_plan *few_rig_open(void)
{
    return rig_open((struct rig){.alone = true, .d_model = D_FEW, .d_ff = D_FF_FEW});
}

void recurrent_rig_close(void)
{
    while (n_matrices)
        random_weight_fini(&matrices[--n_matrices]);
    while (n_vectors)
        free(vectors[--n_vectors]);
}
