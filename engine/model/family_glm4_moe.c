/* GLM-4.5, GLM-4.5-Air, GLM-4.6: the router of DeepSeek V3 (sigmoid, a bias that only chooses,
 * groups) over plain attention; part of each head rotates, biases on q, k and v, norms of q and k
 * in the large one; plain shared expert, first layers dense. The next-token layer lies behind
 * the last. */
#include "engine/model/family.h"

#include <string.h>

static bool accept(struct config *c, struct err *e)
{
    int32_t function =
        config_int(c, key_or(NULL, "expert_gating_func", 0, 16, 2)); /* GGUF: 2 is sigmoid */
    const char *score = config_string(c, "scoring_func");
    if (function == 2 && (!score || !strcmp(score, "sigmoid")))
        return true;
    return err_set(e, ERR_UNSUPPORTED,
                   "glm4_moe with scoring function '%.20s': only sigmoid is read here",
                   score ? score : "softmax");
}

static void moe(struct config *c, struct binder *b, struct moe_plan *m, int32_t d_model)
{
    m->n_expert = config_int(c, key_needed("n_routed_experts", "expert_count", 1, 4096));
    m->n_used =
        config_int(c, key_needed("num_experts_per_tok", "expert_used_count", 1, m->n_expert));
    m->d_ff = config_int(
        c, key_needed("moe_intermediate_size", "expert_feed_forward_length", 1, 1 << 20));
    family_read_sigmoid_router(c, m);
    bind_matrix(b, &m->router, (struct names){"mlp.gate", "ffn_gate_inp"}, m->n_expert, d_model);
    bind_vector(b, &m->select_bias,
                (struct names){"mlp.gate.e_score_correction_bias", "exp_probs_b.bias|exp_probs_b"},
                m->n_expert);
    bind_experts(b, m, d_model);
    int32_t shared = config_int(c, key_or("n_shared_experts", "expert_shared_count", 0, 64, 0));
    m->has_shared = shared > 0;
    if (m->has_shared)
        bind_mlp(b, &m->shared, (struct names){"mlp.shared_experts", "_shexp"}, shared * m->d_ff,
                 d_model);
}

static void layer(struct config *c, struct binder *b, struct model_plan *p, int32_t i)
{
    static const struct names q_norm = {"self_attn.q_norm", "attn_q_norm"};
    struct layer_plan *l = &p->layers[i];
    l->mixer = MIXER_ATTENTION;
    family_read_attention(c, &l->attention, p->d_model);
    family_attention_weights(b, &l->attention, p->d_model);
    if (config_bool(c, "use_qk_norm", NULL, bind_has(b, q_norm)))
        family_qk_norms(b, &l->attention);
    if (family_first_layers_dense(c, b, p, i))
        return;
    l->ffn = FFN_MOE;
    moe(c, b, &l->moe, p->d_model);
}

const struct family family_glm4_moe = {
    .name = "glm4_moe",
    .model_types = (const char *const[]){"glm4_moe", NULL},
    .gguf_archs = (const char *const[]){"glm4moe", NULL},
    .accept = accept,
    .read = family_read_common,
    .layer = layer,
    FAMILY_NAMES("post_attention_norm"),
};
