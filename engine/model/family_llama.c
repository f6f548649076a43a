/* Llama and what is built like it (Mistral, Qwen2): plain attention, biases where the file has
 * them, dense feed-forward. GGUF's converter permutes q and k of Llama so that neighbouring
 * dimensions rotate together, and keeps Llama 3's frequency scaling as a tensor of factors. */
#include "engine/model/family.h"

#include <string.h>

static void layer(struct config *c, struct binder *b, struct model_plan *p, int32_t i)
{
    struct layer_plan *l = &p->layers[i];
    struct attention_plan *a = &l->attention;
    l->mixer = MIXER_ATTENTION;
    family_read_attention(c, a, p->d_model);
    a->rope.interleaved = c->gguf && !strcmp(c->arch, "llama");
    b->layer = -1;
    family_rope_factors(b, &a->rope);
    b->layer = i;
    if (config_bool(c, "use_sliding_window", NULL, !config_has(c, "use_sliding_window", NULL)))
        a->window =
            config_int(c, key_or("sliding_window", "attention.sliding_window", 0, 1 << 30, 0));
    family_attention_weights(b, a, p->d_model);
    l->ffn = FFN_DENSE;
    bind_mlp(b, &l->dense, (struct names){"mlp", ""}, family_dense_width(c), p->d_model);
}

const struct family family_llama = {
    .name = "llama",
    .model_types = (const char *const[]){"llama", "mistral", "qwen2", NULL},
    .gguf_archs = (const char *const[]){"llama", "qwen2", NULL},
    .read = family_read_common,
    .layer = layer,
    FAMILY_NAMES("ffn_norm"),
};
