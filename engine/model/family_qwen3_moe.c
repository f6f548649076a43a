/* Qwen3 MoE (Qwen3-30B-A3B, Qwen3-Coder, the demo model): attention with a norm per head on q and k,
 * softmax router, best k renormalized, no shared expert; single layers may be dense. */
#include "engine/model/family.h"

#include <math.h>

static void attention(struct config *c, struct binder *b, struct attention_plan *a, int32_t d_model)
{
    a->n_head = config_int(c, key_needed("num_attention_heads", "attention.head_count", 1, 4096));
    a->n_kv_head = config_int(c, key_or("num_key_value_heads", "attention.head_count_kv", 1, 4096, a->n_head));
    a->d_head = family_head_dim(c, d_model, a->n_head);
    a->scale = 1 / sqrtf((float)a->d_head);
    if (config_bool(c, "use_sliding_window", NULL, false))
        a->window = config_int(c, key_or("sliding_window", NULL, 0, 1 << 30, 0));
    family_rope(c, &a->rope, a->d_head);
    family_attention_weights(b, a, d_model);
    bind_vector(b, &a->q_norm, (struct names){"self_attn.q_norm", "attn_q_norm"}, a->d_head);
    bind_vector(b, &a->k_norm, (struct names){"self_attn.k_norm", "attn_k_norm"}, a->d_head);
}

static void moe(struct config *c, struct binder *b, struct moe_plan *m, int32_t d_model)
{
    m->n_expert = config_int(c, key_needed("num_experts", "expert_count", 1, 4096));
    m->n_used = config_int(c, key_needed("num_experts_per_tok", "expert_used_count", 1, m->n_expert));
    m->d_ff = config_int(c, key_needed("moe_intermediate_size", "expert_feed_forward_length", 1, 1 << 20));
    m->score = ROUTER_SOFTMAX;
    m->normalize = config_bool(c, "norm_topk_prob", NULL, b->gguf);
    m->scale = 1;
    bind_matrix(b, &m->router, (struct names){"mlp.gate", "ffn_gate_inp"}, m->n_expert, d_model);
    bind_experts(b, m, d_model);
}

static void layer(struct config *c, struct binder *b, struct model_plan *p, int32_t i)
{
    struct layer_plan *l = &p->layers[i];
    l->mixer = MIXER_ATTENTION;
    attention(c, b, &l->attention, p->d_model);
    int32_t step = config_int(c, key_or("decoder_sparse_step", NULL, 1, 1024, 1));
    bool dense = (i + 1) % step || config_list_has(c, "mlp_only_layers", i);
    l->ffn = dense ? FFN_DENSE : FFN_MOE;
    if (!dense) {
        moe(c, b, &l->moe, p->d_model);
        return;
    }
    int32_t d_ff = config_int(c, key_needed("intermediate_size", NULL, 1, 1 << 20));
    bind_mlp(b, &l->dense, (struct names){"mlp", ""}, d_ff, p->d_model);
}

const struct family family_qwen3_moe = {
    .name = "qwen3_moe",
    .model_types = (const char *const[]){"qwen3_moe", NULL},
    .gguf_archs = (const char *const[]){"qwen3moe", NULL},
    .read = family_read_usual,
    .layer = layer,
    .embed = {"embed_tokens", "token_embd"},
    .final_norm = {"norm", "output_norm"},
    .mixer_norm = {"input_layernorm", "attn_norm"},
    .ffn_norm = {"post_attention_layernorm", "ffn_norm"},
};
