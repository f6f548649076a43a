/* Qwen3 MoE (Qwen3-30B-A3B, Qwen3-Coder, the demo model): attention with a norm per head on q and
 * k, softmax router, best k renormalized, no shared expert; single layers may be dense. */
#include "engine/model/family.h"

static void layer(struct config *c, struct binder *b, struct model_plan *p, int32_t i)
{
    struct layer_plan *l = &p->layers[i];
    l->mixer = MIXER_ATTENTION;
    family_read_attention(c, &l->attention, p->d_model);
    if (config_bool(c, "use_sliding_window", NULL, false))
        l->attention.window = config_int(c, key_or("sliding_window", NULL, 0, 1 << 30, 0));
    family_attention_weights(b, &l->attention, p->d_model);
    family_qk_norms(b, &l->attention);

    if (family_dense_layer(c, b, p, i))
        return;
    struct moe_plan *m = &l->moe;
    l->ffn = FFN_MOE;
    family_read_moe(c, m);
    m->score = ROUTER_SOFTMAX;
    m->normalize =
        config_bool(c, "norm_topk_prob", NULL, c->gguf != NULL); /* GGUF has no word for it */
    bind_matrix(b, &m->router, (struct names){"mlp.gate", "ffn_gate_inp"}, m->n_expert, p->d_model);
    bind_experts(b, m, p->d_model);
}

const struct family family_qwen3_moe = {
    .name = "qwen3_moe",
    .model_types = (const char *const[]){"qwen3_moe", NULL},
    .gguf_archs = (const char *const[]){"qwen3moe", NULL},
    .read = family_read_common,
    .layer = layer,
    FAMILY_NAMES("ffn_norm"),
};
