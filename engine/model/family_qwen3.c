/* Dense Qwen3: the attention of Qwen3 MoE over a plain feed-forward. Draft models for speculation
 * are of this kind. */
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
    l->ffn = FFN_DENSE;
    bind_mlp(b, &l->dense, (struct names){"mlp", ""}, family_dense_width(c), p->d_model);
}

const struct family family_qwen3 = {
    .name = "qwen3",
    .model_types = (const char *const[]){"qwen3", NULL},
    .gguf_archs = (const char *const[]){"qwen3", NULL},
    .read = family_read_common,
    .layer = layer,
    FAMILY_NAMES("ffn_norm"),
};
