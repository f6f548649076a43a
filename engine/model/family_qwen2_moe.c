/* Qwen2 MoE (Qwen1.5-MoE-A2.7B, Qwen2-57B-A14B): attention with biases on q, k and v, softmax
 * router whose chosen weights stay as they are, shared expert behind a sigmoid gate; single layers
 * may be dense. */
#include "engine/model/family.h"

static void layer(struct config *c, struct binder *b, struct model_plan *p, int32_t i)
{
    struct layer_plan *l = &p->layers[i];
    l->mixer = MIXER_ATTENTION;
    family_read_attention(c, &l->attention, p->d_model);
    if (config_bool(c, "use_sliding_window", NULL, false) &&
        i >= config_int(c, key_or("max_window_layers", NULL, 0, 1024, 0)))
        l->attention.window = config_int(c, key_or("sliding_window", NULL, 0, 1 << 30, 0));
    family_attention_weights(b, &l->attention, p->d_model);

    if (family_dense_layer(c, b, p, i))
        return;
    struct moe_plan *m = &l->moe;
    l->ffn = FFN_MOE;
    family_read_moe(c, m);
    m->score = ROUTER_SOFTMAX;
    m->normalize = config_bool(c, "norm_topk_prob", "expert_weights_norm", false);
    bind_matrix(b, &m->router, (struct names){"mlp.gate", "ffn_gate_inp"}, m->n_expert, p->d_model);
    bind_experts(b, m, p->d_model);
    family_gated_shared_expert(c, b, m, p->d_model);
}

const struct family family_qwen2_moe = {
    .name = "qwen2_moe",
    .model_types = (const char *const[]){"qwen2_moe", NULL},
    .gguf_archs = (const char *const[]){"qwen2moe", NULL},
    .read = family_read_common,
    .layer = layer,
    FAMILY_NAMES("ffn_norm"),
};
