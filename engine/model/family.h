/* A model family: which files it answers to, and how a configuration becomes a plan. One file
 * family_<name>.c with one row; family.c lists them. docs/ADDING.md has the recipe. */
#pragma once
#include <stdbool.h>

#include "engine/model/bind.h"
#include "engine/model/config.h"
#include "engine/model/plan.h"

struct family {
    const char *name;               /* plan.family */
    const char *const *model_types; /* config.json "model_type"; NULL-terminated */
    const char *const *gguf_archs;  /* "general.architecture"; NULL-terminated, or NULL */
    /* Refuses a variant by its configuration, or NULL. */
    bool (*accept)(struct config *c, struct err *e);
    /* Hyper-parameters of the model: p->n_layer, d_model, n_vocab, n_ctx, norm_eps. */
    void (*read)(struct config *c, struct model_plan *p);
    /* Hyper-parameters and weights of layer i; b->layer is i. The norms are bound already when the
     * family has the usual two ("input_layernorm", "post_attention_layernorm"). */
    void (*layer)(struct config *c, struct binder *b, struct model_plan *p, int32_t i);
    struct names embed, final_norm, mixer_norm, ffn_norm;
    /* What lies outside of the layers, where it isn't an embedding, a final norm and a head; the
     * layers' norms are the family's own then. NULL: the usual. */
    void (*ends)(struct config *c, struct binder *b, struct model_plan *p);
    /* Whether this file stores norm weights as w - 1; NULL: never. */
    bool (*norm_less_one)(struct binder *b);
};

/* The family of a configuration; ERR_UNSUPPORTED names what the file says and what there is. */
const struct family *family_find(const struct config *c, struct err *e);
/* Reads and binds everything: layers from the model's arena, the plan complete but for the
 * fingerprint. */
bool family_build(const struct family *f, struct config *c, struct binder *b, struct model_plan *p,
                  struct err *e);

/* Adds an id or a list of ids ("eos_token_id"); ids outside the vocabulary are dropped. */
void family_add_eos(struct model_plan *p, const cJSON *v);

/* --- shared by the families --- */

/* n_layer, d_model, n_vocab, n_ctx and norm_eps by their usual names. */
void family_read_common(struct config *c, struct model_plan *p);
/* Plain rotary settings, or YaRN/linear/llama3 scaling as the configuration says:
 * rope_frequencies.c. */
void family_rope(struct config *c, struct rope_plan *r, int32_t n_dims);
/* Dimensions of a head that rotate: all, or partial_rotary_factor of them. */
int32_t family_rotary_dims(struct config *c, int32_t d_head);
/* GGUF: the tensor of factors that stands for Llama 3's scaling, where there is one; b->layer must
 * be -1 or the tensor is looked for in the layer. */
void family_rope_factors(struct binder *b, struct rope_plan *r);
/* n_head, n_kv_head, d_head, scale, rope by their usual names. */
void family_read_attention(struct config *c, struct attention_plan *a, int32_t d_model);
/* Separate q, k, v, o projections with the usual names, and their biases where the file has them.
 */
void family_attention_weights(struct binder *b, struct attention_plan *a, int32_t d_model);
/* RMS norms of q and k per head, with the usual names. */
void family_qk_norms(struct binder *b, struct attention_plan *a);
/* Width of the dense feed-forward. */
int32_t family_dense_width(struct config *c);
/* n_expert, n_used, d_ff by their usual names. */
void family_read_moe(struct config *c, struct moe_plan *m);
/* The shared expert behind a sigmoid gate (Qwen2 MoE, Qwen3.5), where the configuration gives it a
 * width. */
void family_gated_shared_expert(struct config *c, struct binder *b, struct moe_plan *m,
                                int32_t d_model);
/* Layer i of a model with experts may be dense all the same (decoder_sparse_step, mlp_only_layers):
 * true, and its feed-forward is bound. */
bool family_dense_layer(struct config *c, struct binder *b, struct model_plan *p, int32_t i);
/* The first layers are dense in others (first_k_dense_replace): the same. */
bool family_first_layers_dense(struct config *c, struct binder *b, struct model_plan *p, int32_t i);
/* Sigmoid scores, normalized and scaled, chosen within groups (DeepSeek V3's router): the switches,
 * and a refusal of groups that can't hold the experts or the choice. */
void family_read_sigmoid_router(struct config *c, struct moe_plan *m);

/* The names that most families give the tensors outside of mixer and feed-forward; they differ in
 * gguf_ffn_norm only. */
#define FAMILY_NAMES(gguf_ffn_norm)                                                                \
    .embed = {"embed_tokens", "token_embd"}, .final_norm = {"norm", "output_norm"},                \
    .mixer_norm = {"input_layernorm", "attn_norm"},                                                \
    .ffn_norm = {"post_attention_layernorm", gguf_ffn_norm}
