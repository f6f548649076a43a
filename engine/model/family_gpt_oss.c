/* gpt-oss (20b, 120b): biases everywhere, a learned sink in each head's softmax, every other layer
 * with a sliding window, YaRN, the best k experts before the softmax, clamped SwiGLU. */
#include "engine/model/family.h"

#include <string.h>

static bool accept(struct config *c, struct err *e)
{
    double limit = config_number(c, key_or("swiglu_limit", NULL, 0, 1000, 7));
    return limit == 7 ||
           err_set(e, ERR_UNSUPPORTED, "gpt_oss with swiglu_limit %g: only 7 is read here", limit);
}

static bool is_sliding(struct config *c, int32_t i)
{
    const char *type = config_string_at(c, "layer_types", i);
    return type ? !strcmp(type, "sliding_attention") : i % 2 == 0;
}

static void attention(struct config *c, struct binder *b, struct attention_plan *a, int32_t d_model,
                      int32_t i)
{
    family_read_attention(c, a, d_model);
    if (is_sliding(c, i))
        a->window =
            config_int(c, key_needed("sliding_window", "attention.sliding_window", 1, 1 << 30));
    family_attention_weights(b, a, d_model);
    int32_t q = a->n_head * a->d_head, kv = a->n_kv_head * a->d_head;
    bind_vector(b, &a->bq, (struct names){"self_attn.q_proj.bias", "attn_q.bias"}, q);
    bind_vector(b, &a->bk, (struct names){"self_attn.k_proj.bias", "attn_k.bias"}, kv);
    bind_vector(b, &a->bv, (struct names){"self_attn.v_proj.bias", "attn_v.bias"}, kv);
    bind_vector(b, &a->bo, (struct names){"self_attn.o_proj.bias", "attn_output.bias"}, d_model);
    bind_vector(b, &a->sinks, (struct names){"self_attn.sinks", "attn_sinks"}, a->n_head);
}

static void layer(struct config *c, struct binder *b, struct model_plan *p, int32_t i)
{
    struct layer_plan *l = &p->layers[i];
    struct moe_plan *m = &l->moe;
    l->mixer = MIXER_ATTENTION;
    attention(c, b, &l->attention, p->d_model, i);
    l->ffn = FFN_MOE;
    l->activation = ACT_SWIGLU_CLAMP;
    m->n_expert = config_int(c, key_needed("num_local_experts", "expert_count", 1, 4096));
    m->n_used =
        config_int(c, key_or("num_experts_per_tok", "expert_used_count", 1, m->n_expert, 4));
    m->d_ff =
        config_int(c, key_needed("intermediate_size", "expert_feed_forward_length", 1, 1 << 20));
    m->score = ROUTER_TOPK_SOFTMAX;
    m->scale = 1;
    bind_matrix(b, &m->router, (struct names){"mlp.router", "ffn_gate_inp"}, m->n_expert,
                p->d_model);
    bind_vector(b, &m->router_bias, (struct names){"mlp.router.bias", "ffn_gate_inp.bias"},
                m->n_expert);
    bind_gpt_oss_experts(b, m, p->d_model);
}

const struct family family_gpt_oss = {
    .name = "gpt_oss",
    .model_types = (const char *const[]){"gpt_oss", NULL},
    .gguf_archs = (const char *const[]){"gpt-oss", NULL},
    .accept = accept,
    .read = family_read_common,
    .layer = layer,
    FAMILY_NAMES("post_attention_norm|ffn_norm"),
};
