/* Presets with the published models' numbers, and the config.json of a shape. */
#include "fcgi/cli/bench/synth_shape.h"

#include <inttypes.h>
#include <string.h>

static const struct preset {
    const char *name;
    struct synth_shape shape;
} presets[] = {
    {"demo",
     {.family = "qwen3_moe",
      .hidden = 512,
      .layers = 8,
      .heads = 8,
      .kv_heads = 2,
      .head_dim = 64,
      .vocab = 8192,
      .context = 4096,
      .experts = 24,
      .top_k = 4,
      .inter = 128,
      .tied = true}},
    {"qwen3-30b-a3b",
     {.family = "qwen3_moe",
      .hidden = 2048,
      .layers = 48,
      .heads = 32,
      .kv_heads = 4,
      .head_dim = 128,
      .vocab = 151936,
      .context = 262144,
      .experts = 128,
      .top_k = 8,
      .inter = 768}},
    {"qwen3.6-35b-a3b",
     {.family = "qwen3_5_moe",
      .hidden = 2048,
      .layers = 40,
      .heads = 16,
      .kv_heads = 2,
      .head_dim = 256,
      .vocab = 248320,
      .context = 262144,
      .experts = 256,
      .top_k = 8,
      .inter = 512,
      .shared_inter = 512,
      .linear_k_heads = 16,
      .linear_v_heads = 32,
      .linear_dim = 128}},
    {"qwen3.5-122b-a10b",
     {.family = "qwen3_5_moe",
      .hidden = 3072,
      .layers = 48,
      .heads = 32,
      .kv_heads = 2,
      .head_dim = 256,
      .vocab = 248320,
      .context = 262144,
      .experts = 256,
      .top_k = 8,
      .inter = 1024,
      .shared_inter = 1024,
      .linear_k_heads = 16,
      .linear_v_heads = 64,
      .linear_dim = 128}},
    {"ling-flash-2.0",
     {.family = "bailing_moe",
      .hidden = 4096,
      .layers = 32,
      .heads = 32,
      .kv_heads = 4,
      .head_dim = 128,
      .vocab = 157184,
      .context = 131072,
      .experts = 256,
      .top_k = 8,
      .inter = 1024,
      .shared_inter = 1024,
      .dense_layers = 1,
      .dense_inter = 9216,
      .groups = 8,
      .groups_used = 4}},
    {"ling-mini-2.0",
     {.family = "bailing_moe",
      .hidden = 2048,
      .layers = 20,
      .heads = 16,
      .kv_heads = 4,
      .head_dim = 128,
      .vocab = 157184,
      .context = 32768,
      .experts = 256,
      .top_k = 8,
      .inter = 512,
      .shared_inter = 512,
      .dense_layers = 1,
      .dense_inter = 5120,
      .groups = 8,
      .groups_used = 4}},
    {"gpt-oss-20b",
     {.family = "gpt_oss",
      .hidden = 2880,
      .layers = 24,
      .heads = 64,
      .kv_heads = 8,
      .head_dim = 64,
      .vocab = 201088,
      .context = 131072,
      .experts = 32,
      .top_k = 4,
      .inter = 2880,
      .window = 128}},
    {"gpt-oss-120b",
     {.family = "gpt_oss",
      .hidden = 2880,
      .layers = 36,
      .heads = 64,
      .kv_heads = 8,
      .head_dim = 64,
      .vocab = 201088,
      .context = 131072,
      .experts = 128,
      .top_k = 4,
      .inter = 2880,
      .window = 128}},
    {"qwen3-0.6b",
     {.family = "qwen3",
      .hidden = 1024,
      .layers = 28,
      .heads = 16,
      .kv_heads = 8,
      .head_dim = 128,
      .vocab = 151936,
      .context = 40960,
      .dense_inter = 3072,
      .tied = true}},
};

const struct synth_shape *synth_preset(const char *name)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (!strcmp(presets[i].name, name))
            return &presets[i].shape;
    return NULL;
}

void synth_override(struct synth_shape *s, const struct synth_shape *own)
{
    if (own->family)
        s->family = own->family;
    int64_t *to = &s->hidden;
    const int64_t *from = &own->hidden;
    size_t n =
        (offsetof(struct synth_shape, tied) - offsetof(struct synth_shape, hidden)) / sizeof *to;
    for (size_t i = 0; i < n; i++)
        if (from[i])
            to[i] = from[i];
    s->tied |= own->tied;
}

static void put_int(struct buf *b, const char *name, int64_t v)
{
    buf_printf(b, "\n  \"%s\": %" PRId64 ",", name, v);
}

static void put_attention(const struct synth_shape *s, struct buf *b)
{
    put_int(b, "hidden_size", s->hidden);
    put_int(b, "num_hidden_layers", s->layers);
    put_int(b, "num_attention_heads", s->heads);
    put_int(b, "num_key_value_heads", s->kv_heads);
    put_int(b, "head_dim", s->head_dim);
    put_int(b, "vocab_size", s->vocab);
    put_int(b, "max_position_embeddings", s->context);
}

static void put_qwen3_moe(const struct synth_shape *s, struct buf *b)
{
    put_attention(s, b);
    put_int(b, "num_experts", s->experts);
    put_int(b, "num_experts_per_tok", s->top_k);
    put_int(b, "moe_intermediate_size", s->inter);
    put_int(b, "intermediate_size", s->dense_inter ? s->dense_inter : s->inter * s->top_k);
    buf_puts(b, "\n  \"norm_topk_prob\": true, \"decoder_sparse_step\": 1, \"mlp_only_layers\": [],"
                "\n  \"rms_norm_eps\": 1e-06, \"rope_theta\": 1000000.0, \"hidden_act\": \"silu\"");
}

static void put_qwen3_5_moe(const struct synth_shape *s, struct buf *b)
{
    buf_puts(b, "\n  \"text_config\": {\"model_type\": \"qwen3_5_moe_text\",");
    put_attention(s, b);
    put_int(b, "num_experts", s->experts);
    put_int(b, "num_experts_per_tok", s->top_k);
    put_int(b, "moe_intermediate_size", s->inter);
    put_int(b, "shared_expert_intermediate_size", s->shared_inter);
    put_int(b, "linear_num_key_heads", s->linear_k_heads);
    put_int(b, "linear_num_value_heads", s->linear_v_heads);
    put_int(b, "linear_key_head_dim", s->linear_dim);
    put_int(b, "linear_value_head_dim", s->linear_dim);
    buf_puts(b, "\n  \"linear_conv_kernel_dim\": 4, \"full_attention_interval\": 4, "
                "\"attn_output_gate\": true,"
                "\n  \"rms_norm_eps\": 1e-06, \"hidden_act\": \"silu\", \"rope_parameters\": "
                "{\"rope_type\": \"default\","
                " \"rope_theta\": 10000000.0, \"partial_rotary_factor\": 0.25}}");
}

static void put_bailing(const struct synth_shape *s, struct buf *b)
{
    put_attention(s, b);
    put_int(b, "num_experts", s->experts);
    put_int(b, "num_experts_per_tok", s->top_k);
    put_int(b, "moe_intermediate_size", s->inter);
    put_int(b, "num_shared_experts", s->inter ? s->shared_inter / s->inter : 0);
    put_int(b, "first_k_dense_replace", s->dense_layers);
    put_int(b, "intermediate_size", s->dense_inter);
    put_int(b, "n_group", s->groups ? s->groups : 1);
    put_int(b, "topk_group", s->groups_used ? s->groups_used : 1);
    buf_puts(b,
             "\n  \"norm_topk_prob\": true, \"routed_scaling_factor\": 2.5, \"score_function\": "
             "\"sigmoid\","
             "\n  \"moe_router_enable_expert_bias\": true, \"use_qk_norm\": true, "
             "\"use_qkv_bias\": false,"
             "\n  \"partial_rotary_factor\": 0.5, \"rms_norm_eps\": 1e-06, \"rope_theta\": 600000");
}

static void put_gpt_oss(const struct synth_shape *s, struct buf *b)
{
    put_attention(s, b);
    put_int(b, "num_local_experts", s->experts);
    put_int(b, "num_experts_per_tok", s->top_k);
    put_int(b, "intermediate_size", s->inter);
    put_int(b, "sliding_window", s->window ? s->window : 128);
    buf_puts(b, "\n  \"layer_types\": [");
    for (int64_t i = 0; i < s->layers; i++)
        buf_printf(b, "%s\"%s_attention\"", i ? ", " : "", i % 2 ? "full" : "sliding");
    buf_puts(b, "],\n  \"attention_bias\": true, \"swiglu_limit\": 7.0, \"rms_norm_eps\": 1e-05, "
                "\"rope_theta\": 150000,"
                "\n  \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 32.0, \"beta_fast\": "
                "32.0, \"beta_slow\": 1.0,"
                " \"original_max_position_embeddings\": 4096, \"truncate\": false}");
}

static void put_dense(const struct synth_shape *s, struct buf *b)
{
    put_attention(s, b);
    put_int(b, "intermediate_size", s->dense_inter ? s->dense_inter : s->hidden * 3);
    buf_puts(b, "\n  \"rms_norm_eps\": 1e-06, \"rope_theta\": 1000000.0, \"hidden_act\": \"silu\"");
}

static const struct writer {
    const char *family, *architecture;
    void (*put)(const struct synth_shape *s, struct buf *b);
} writers[] = {
    {"qwen3_moe", "Qwen3MoeForCausalLM", put_qwen3_moe},
    {"qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", put_qwen3_5_moe},
    {"bailing_moe", "BailingMoeV2ForCausalLM", put_bailing},
    {"gpt_oss", "GptOssForCausalLM", put_gpt_oss},
    {"qwen3", "Qwen3ForCausalLM", put_dense},
    {"llama", "LlamaForCausalLM", put_dense},
};

bool synth_config(const struct synth_shape *s, int64_t eos, const char *dtype, struct buf *out,
                  struct err *e)
{
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        if (strcmp(writers[i].family, s->family))
            continue;
        buf_printf(out,
                   "{\n  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\",\n  "
                   "\"torch_dtype\": \"%s\",",
                   writers[i].architecture, s->family, dtype);
        if (eos >= 0)
            put_int(out, "eos_token_id", eos);
        buf_printf(out, "\n  \"tie_word_embeddings\": %s,", s->tied ? "true" : "false");
        writers[i].put(s, out);
        return !out->failed || err_set(e, ERR_NOMEM, "no memory for config.json");
    }
    return err_field(e, ERR_INPUT, "family", "'%s' is none of " SYNTH_FAMILIES, s->family);
}
