/* Qwen3.5 and Qwen3.6, MoE and dense: three layers of gated DeltaNet, then one of gated attention;
 * a quarter of each head rotates; shared expert behind a sigmoid gate. Files are multimodal: the
 * text part is read, with the next-token layer (mtp.*); vision tensors are passed over by name. */
#include "engine/model/family.h"

#include <math.h>
#include <string.h>

static const struct names conv1d = {"linear_attn.conv1d", "ssm_conv1d"};

/* Published files keep norm weights as w - 1 and convolutions as [channels, 1, width]; mlx and GGUF
 * have the weight itself, and mlx [channels, width, 1]. The first layer is a DeltaNet one in all of
 * them. */
static bool norm_less_one(struct binder *b)
{
    struct binder first = *b;
    first.layer = 0;
    const struct tensor *t = b->gguf || b->manifest ? NULL : bind_find(&first, conv1d, NULL, 0);
    return t && t->n_dims == 3 && t->dims[2] != 1;
}

static bool is_attention(struct config *c, int32_t i)
{
    const char *type = config_string_at(c, "layer_types", i);
    if (type)
        return !strcmp(type, "full_attention");
    int32_t every =
        config_int(c, key_or("full_attention_interval", "full_attention_interval", 1, 1024, 4));
    return (i + 1) % every == 0;
}

/* GGUF holds -exp(A_log) already. */
static void decay(const struct binder *b, struct vector *a_log)
{
    float *at = (float *)(uintptr_t)a_log->at; /* our own copy */
    for (int32_t i = 0; at && !b->gguf && i < a_log->n; i++)
        at[i] = -expf(at[i]);
}

static void delta_net(struct config *c, struct binder *b, struct delta_net_plan *n, int32_t d_model)
{
    n->n_k_head = config_int(c, key_needed("linear_num_key_heads", "ssm.group_count", 1, 4096));
    n->n_v_head =
        config_int(c, key_needed("linear_num_value_heads", "ssm.time_step_rank", 1, 4096));
    n->d_k = config_int(c, key_needed("linear_key_head_dim", "ssm.state_size", 1, 1024));
    n->d_v = c->gguf ? config_int(c, key_needed(NULL, "ssm.inner_size", 1, 1 << 20)) / n->n_v_head
                     : config_int(c, key_needed("linear_value_head_dim", NULL, 1, 1024));
    n->n_conv = config_int(c, key_or("linear_conv_kernel_dim", "ssm.conv_kernel", 2, 16, 4));
    n->tiled_heads = b->gguf;
    if (n->n_v_head % n->n_k_head)
        config_fail(c, ERR_FORMAT, "%d value heads over %d key heads", n->n_v_head, n->n_k_head);
    int32_t values = n->n_v_head * n->d_v, channels = 2 * n->n_k_head * n->d_k + values;
    bind_matrix(b, &n->w_qkv, (struct names){"linear_attn.in_proj_qkv", "attn_qkv"}, channels,
                d_model);
    bind_matrix(b, &n->w_z, (struct names){"linear_attn.in_proj_z", "attn_gate"}, values, d_model);
    bind_matrix(b, &n->w_a, (struct names){"linear_attn.in_proj_a", "ssm_alpha"}, n->n_v_head,
                d_model);
    bind_matrix(b, &n->w_b, (struct names){"linear_attn.in_proj_b", "ssm_beta"}, n->n_v_head,
                d_model);
    bind_matrix(b, &n->w_out, (struct names){"linear_attn.out_proj", "ssm_out"}, d_model, values);
    bind_vector(b, &n->conv, conv1d, channels * n->n_conv);
    bind_vector(b, &n->a_log, (struct names){"linear_attn.A_log", "ssm_a"}, n->n_v_head);
    bind_vector(b, &n->dt_bias, (struct names){"linear_attn.dt_bias", "ssm_dt.bias"}, n->n_v_head);
    bind_vector(b, &n->norm, (struct names){"linear_attn.norm", "ssm_norm"}, n->d_v);
    decay(b, &n->a_log);
}

static void moe(struct config *c, struct binder *b, struct moe_plan *m, int32_t d_model)
{
    family_read_moe(c, m);
    m->score = ROUTER_SOFTMAX;
    m->normalize = true;
    bind_matrix(b, &m->router, (struct names){"mlp.gate", "ffn_gate_inp"}, m->n_expert, d_model);
    bind_experts(b, m, d_model);
    family_gated_shared_expert(c, b, m, d_model);
}

static void layer(struct config *c, struct binder *b, struct model_plan *p, int32_t i)
{
    struct layer_plan *l = &p->layers[i];
    if (i == p->n_layer || is_attention(c, i)) { /* the next-token layer is one of attention */
        l->mixer = MIXER_ATTENTION;
        l->attention.output_gate = config_bool(c, "attn_output_gate", NULL, true);
        family_read_attention(c, &l->attention, p->d_model);
        family_attention_weights(b, &l->attention, p->d_model);
        family_qk_norms(b, &l->attention);
    } else {
        l->mixer = MIXER_DELTA_NET;
        delta_net(c, b, &l->delta_net, p->d_model);
    }
    if (config_has(c, "num_experts", "expert_count") && !config_list_has(c, "mlp_only_layers", i)) {
        l->ffn = FFN_MOE;
        moe(c, b, &l->moe, p->d_model);
    } else {
        l->ffn = FFN_DENSE;
        bind_mlp(b, &l->dense, (struct names){"mlp", ""}, family_dense_width(c), p->d_model);
    }
}

const struct family family_qwen3_5_moe = {
    .name = "qwen3_5_moe",
    .model_types =
        (const char *const[]){"qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5", "qwen3_5_text", NULL},
    .gguf_archs = (const char *const[]){"qwen35moe", "qwen35", NULL},
    .read = family_read_common,
    .layer = layer,
    FAMILY_NAMES("post_attention_norm"),
    .norm_less_one = norm_less_one,
};
