/* Bailing MoE V2 (Ling-flash-2.0, Ling-mini-2.0, Ring): q, k and v in one tensor, half of each head
 * rotates, group-limited sigmoid router whose bias only chooses, plain shared expert, first layers
 * dense. */
#include "engine/model/family.h"

#include <string.h>

static bool accept(struct config *c, struct err *e)
{
    int32_t function =
        config_int(c, key_or(NULL, "expert_gating_func", 0, 16, 2)); /* GGUF: 2 is sigmoid */
    const char *score = config_string(c, "score_function");
    bool biased = config_bool(c, "moe_router_enable_expert_bias", NULL, c->gguf != NULL);
    if (function == 2 && (c->gguf || biased) && (!score || !strcmp(score, "sigmoid")))
        return true;
    return err_set(e, ERR_UNSUPPORTED,
                   "bailing_moe with score function '%.20s'%s: only V2 is read here",
                   score ? score : "softmax", biased ? "" : " and no expert bias");
}

static void attention(struct config *c, struct binder *b, struct attention_plan *a, int32_t d_model)
{
    static const struct names qkv = {"attention.query_key_value", "attn_qkv"};
    static const struct names bias = {"attention.query_key_value.bias", "attn_qkv.bias"};
    family_read_attention(c, a, d_model);
    int32_t q = a->n_head * a->d_head, kv = a->n_kv_head * a->d_head, all = q + 2 * kv;
    bind_stack(b, &a->wq, qkv,
               &(struct stack_shape){.rows = q, .cols = d_model, .slice = {0, 1, all}});
    bind_stack(b, &a->wk, qkv,
               &(struct stack_shape){.rows = kv, .cols = d_model, .slice = {q, 1, all}});
    bind_stack(b, &a->wv, qkv,
               &(struct stack_shape){.rows = kv, .cols = d_model, .slice = {q + kv, 1, all}});
    bind_matrix(b, &a->wo, (struct names){"attention.dense", "attn_output"}, d_model, q);
    bind_vector_optional(b, &a->bo, (struct names){"attention.dense.bias", "attn_output.bias"},
                         d_model);
    if (bind_has(b, bias)) {
        struct vector fused;
        bind_vector(b, &fused, bias, all);
        a->bq = (struct vector){fused.at, q};
        a->bk = (struct vector){fused.at ? fused.at + q : NULL, kv};
        a->bv = (struct vector){fused.at ? fused.at + q + kv : NULL, kv};
    }
    if (config_bool(c, "use_qk_norm", NULL, true)) {
        bind_vector(b, &a->q_norm, (struct names){"attention.query_layernorm", "attn_q_norm"},
                    a->d_head);
        bind_vector(b, &a->k_norm, (struct names){"attention.key_layernorm", "attn_k_norm"},
                    a->d_head);
    }
}

static void shared_expert(struct config *c, struct binder *b, struct moe_plan *m, int32_t d_model)
{
    int32_t n = config_int(c, key_or("num_shared_experts", "expert_shared_count", 0, 64, 0));
    m->has_shared = n > 0;
    if (!m->has_shared)
        return;
    int32_t one = config_int(c, key_or("moe_shared_expert_intermediate_size",
                                       "expert_shared_feed_forward_length", 1, 1 << 20, m->d_ff));
    /* Published files count one width per shared expert; GGUF gives that of one as well. */
    bind_mlp(b, &m->shared, (struct names){"mlp.shared_experts", "_shexp"}, one * n, d_model);
}

static void moe(struct config *c, struct binder *b, struct moe_plan *m, int32_t d_model)
{
    family_read_moe(c, m);
    family_read_sigmoid_router(c, m);
    bind_matrix(b, &m->router, (struct names){"mlp.gate|mlp.gate.gate_proj", "ffn_gate_inp"},
                m->n_expert, d_model);
    bind_vector(b, &m->select_bias,
                (struct names){"mlp.gate.expert_bias", "exp_probs_b.bias|exp_probs_b"},
                m->n_expert);
    bind_experts(b, m, d_model);
    shared_expert(c, b, m, d_model);
}

static void layer(struct config *c, struct binder *b, struct model_plan *p, int32_t i)
{
    struct layer_plan *l = &p->layers[i];
    l->mixer = MIXER_ATTENTION;
    attention(c, b, &l->attention, p->d_model);
    if (family_first_layers_dense(c, b, p, i))
        return;
    l->ffn = FFN_MOE;
    moe(c, b, &l->moe, p->d_model);
}

const struct family family_bailing_moe = {
    .name = "bailing_moe",
    .model_types = (const char *const[]){"bailing_moe", "bailing_moe_v2", NULL},
    .gguf_archs = (const char *const[]){"bailingmoe2", NULL},
    .accept = accept,
    .read = family_read_common,
    .layer = layer,
    .embed = {"word_embeddings", "token_embd"},
    .final_norm = {"norm", "output_norm"},
    .mixer_norm = {"input_layernorm", "attn_norm"},
    .ffn_norm = {"post_attention_layernorm", "ffn_norm"},
};
