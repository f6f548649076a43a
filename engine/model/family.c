/* The list of families, and what all of them share: embedding, head, norms, eos. */
#include "engine/model/family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/format/gguf.h"

extern const struct family family_qwen3_moe, family_qwen3_5_moe, family_bailing_moe, family_gpt_oss,
    family_qwen3, family_llama, family_qwen2_moe, family_glm4_moe, family_bert, family_dflash;

static const struct family *const families[] = {
    &family_qwen3_moe, &family_qwen3_5_moe, &family_bailing_moe, &family_gpt_oss, &family_qwen3,
    &family_llama,     &family_qwen2_moe,   &family_glm4_moe,    &family_bert,    NULL,
};

static bool listed(const char *const *list, const char *name)
{
    for (; list && *list; list++)
        if (!strcmp(*list, name))
            return true;
    return false;
}

static void list_names(char *out, size_t size)
{
    size_t at = 0;
    for (const struct family *const *f = families; *f && at < size; f++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", f == families ? "" : ", ", (*f)->name);
}

const struct family *family_find(const struct config *c, struct err *e)
{
    const char *type = NULL, *text_type = NULL;
    if (!c->gguf && json_member(c->root, "dflash_config"))
        return &family_dflash; /* its model_type is that of the layers that it is made of */
    if (!c->gguf) {
        json_get_string(c->root, "model_type", &type, NULL);
        json_get_string(c->text, "model_type", &text_type, NULL);
    } else {
        type = c->arch;
    }
    for (const struct family *const *f = families; *f; f++) {
        const char *const *names = c->gguf ? (*f)->gguf_archs : (*f)->model_types;
        if ((type && listed(names, type)) || (text_type && listed(names, text_type)))
            return *f;
    }
    char have[160];
    list_names(have, sizeof have);
    err_set(e, ERR_UNSUPPORTED, "architecture '%.48s' is not known here; known: %s",
            type ? type : "(none)", have);
    return NULL;
}

static void add_eos_id(struct model_plan *p, double v)
{
    if (!(v >= 0 && v < p->n_vocab) || p->n_eos == PLAN_MAX_EOS)
        return;
    int32_t id = (int32_t)v;
    for (int i = 0; i < p->n_eos; i++)
        if (p->eos[i] == id)
            return;
    p->eos[p->n_eos++] = id;
}

void family_add_eos(struct model_plan *p, const cJSON *v)
{
    const cJSON *one;
    if (cJSON_IsNumber(v))
        add_eos_id(p, v->valuedouble);
    cJSON_ArrayForEach (one, v)
        if (cJSON_IsArray(v) && cJSON_IsNumber(one))
            add_eos_id(p, one->valuedouble);
}

static void add_config_eos(const struct config *c, struct model_plan *p)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    double id;
    if (c->root) {
        family_add_eos(p, json_member(c->root, "eos_token_id"));
        family_add_eos(p, json_member(c->text, "eos_token_id"));
    }
    for (size_t i = 0; c->gguf && i < sizeof keys / sizeof *keys; i++)
        if (gguf_number(c->gguf, keys[i], &id))
            add_eos_id(p, id);
}

static void add_one(struct vector *v)
{
    float *at = (float *)(uintptr_t)v->at; /* our own copy, see bind_vector */
    for (int32_t i = 0; at && i < v->n; i++)
        at[i] += 1;
}

static void build_layer(const struct family *f, struct config *c, struct binder *b,
                        struct model_plan *p, int32_t i)
{
    struct layer_plan *l = &p->layers[i];
    bool less_one = f->norm_less_one && f->norm_less_one(b);
    b->layer = i;
    if (!f->ends) {
        bind_vector(b, &l->mixer_norm, f->mixer_norm, p->d_model);
        bind_vector(b, &l->ffn_norm, f->ffn_norm, p->d_model);
    }
    f->layer(c, b, p, i);
    if (less_one) {
        add_one(&l->mixer_norm);
        add_one(&l->ffn_norm);
        add_one(&l->attention.q_norm);
        add_one(&l->attention.k_norm);
    }
    l->kv_index = l->mixer == MIXER_ATTENTION ? p->n_attention++ : -1;
    l->state_index = l->mixer == MIXER_DELTA_NET ? p->n_recurrent++ : -1;
    b->layer = -1;
}

static void build_ends(const struct family *f, struct config *c, struct binder *b,
                       struct model_plan *p)
{
    static const struct names head = {"lm_head", "output"};
    bool tied = config_bool(c, "tie_word_embeddings", NULL, false);
    bind_matrix(b, &p->embed, f->embed, p->n_vocab, p->d_model);
    bind_vector(b, &p->final_norm, f->final_norm, p->d_model);
    if (f->norm_less_one && f->norm_less_one(b))
        add_one(&p->final_norm);
    /* Files exist that say "tied" and hold a head, or say nothing and hold none: the tensor
     * decides, but a model that says "own head" must have it. */
    bool silent = !config_has(c, "tie_word_embeddings", NULL);
    if (tied || (silent && !bind_has(b, head)))
        p->head = p->embed;
    else
        bind_matrix(b, &p->head, head, p->n_vocab, p->d_model);
}

bool family_build(const struct family *f, struct config *c, struct binder *b, struct model_plan *p,
                  struct err *e)
{
    p->family = f->name;
    if (!config_check_scheme(c, e) || (f->accept && !f->accept(c, e)))
        return false;
    f->read(c, p);
    if (c->failed) {
        if (e)
            *e = c->failure;
        return false;
    }
    add_config_eos(c, p);
    /* one more than there are: next_layer.c */
    p->layers = arena_alloc(b->arena, (size_t)(p->n_layer + 1) * sizeof *p->layers);
    if (!p->layers)
        return err_set(e, ERR_NOMEM, "no memory for %d layers", p->n_layer);
    if (f->ends)
        f->ends(c, b, p);
    else
        build_ends(f, c, b, p);
    for (int32_t i = 0; i < p->n_layer && !c->failed && !b->failed; i++)
        build_layer(f, c, b, p, i);
    if (c->failed && e)
        *e = c->failure;
    return !c->failed && bind_finish(b, e);
}

void family_read_common(struct config *c, struct model_plan *p)
{
    p->n_layer = config_int(c, key_needed("num_hidden_layers", "block_count", 1, 1024));
    p->d_model = config_int(c, key_needed("hidden_size", "embedding_length", 1, 1 << 17));
    p->n_ctx = config_int(c, key_needed("max_position_embeddings", "context_length", 1, 1 << 30));
    p->norm_eps = (float)config_number(
        c, key_needed("rms_norm_eps", "attention.layer_norm_rms_epsilon", 0, 1));
    p->n_vocab = config_int(c, key_or("vocab_size", "vocab_size", 1, 1 << 24, c->n_vocab));
    if (!p->n_vocab)
        config_fail(c, ERR_FORMAT, "vocab_size is missing");
    /* Converters count draft layers (multi-token prediction) among the blocks; the plan runs
     * without them. */
    int32_t draft = config_int(c, key_or(NULL, "nextn_predict_layers", 0, 64, 0));
    if (draft < p->n_layer)
        p->n_layer -= draft;
}

void family_read_attention(struct config *c, struct attention_plan *a, int32_t d_model)
{
    a->n_head = config_int(c, key_needed("num_attention_heads", "attention.head_count", 1, 4096));
    a->n_kv_head =
        config_int(c, key_or("num_key_value_heads", "attention.head_count_kv", 1, 4096, a->n_head));
    a->d_head = config_int(c, key_or("head_dim", "attention.key_length", 1, 1024,
                                     a->n_head ? d_model / a->n_head : 1));
    if (a->n_head % a->n_kv_head)
        config_fail(c, ERR_FORMAT, "%d heads over %d key heads", a->n_head, a->n_kv_head);
    a->scale = 1 / sqrtf((float)a->d_head);
    family_rope(c, &a->rope, family_rotary_dims(c, a->d_head));
}

void family_attention_weights(struct binder *b, struct attention_plan *a, int32_t d_model)
{
    int32_t q_rows = a->n_head * a->d_head * (a->output_gate ? 2 : 1),
            kv_rows = a->n_kv_head * a->d_head;
    bind_matrix(b, &a->wq, (struct names){"self_attn.q_proj", "attn_q"}, q_rows, d_model);
    bind_matrix(b, &a->wk, (struct names){"self_attn.k_proj", "attn_k"}, kv_rows, d_model);
    bind_matrix(b, &a->wv, (struct names){"self_attn.v_proj", "attn_v"}, kv_rows, d_model);
    bind_matrix(b, &a->wo, (struct names){"self_attn.o_proj", "attn_output"}, d_model,
                a->n_head * a->d_head);
    bind_vector_optional(b, &a->bq, (struct names){"self_attn.q_proj.bias", "attn_q.bias"}, q_rows);
    bind_vector_optional(b, &a->bk, (struct names){"self_attn.k_proj.bias", "attn_k.bias"},
                         kv_rows);
    bind_vector_optional(b, &a->bv, (struct names){"self_attn.v_proj.bias", "attn_v.bias"},
                         kv_rows);
    bind_vector_optional(b, &a->bo, (struct names){"self_attn.o_proj.bias", "attn_output.bias"},
                         d_model);
}

void family_qk_norms(struct binder *b, struct attention_plan *a)
{
    bind_vector(b, &a->q_norm, (struct names){"self_attn.q_norm", "attn_q_norm"}, a->d_head);
    bind_vector(b, &a->k_norm, (struct names){"self_attn.k_norm", "attn_k_norm"}, a->d_head);
}

int32_t family_dense_width(struct config *c)
{
    return config_int(c, key_needed("intermediate_size", "feed_forward_length", 1, 1 << 20));
}

void family_read_moe(struct config *c, struct moe_plan *m)
{
    m->n_expert = config_int(c, key_needed("num_experts", "expert_count", 1, 4096));
    m->n_used =
        config_int(c, key_needed("num_experts_per_tok", "expert_used_count", 1, m->n_expert));
    m->d_ff = config_int(
        c, key_needed("moe_intermediate_size", "expert_feed_forward_length", 1, 1 << 20));
    m->scale = 1;
}

void family_gated_shared_expert(struct config *c, struct binder *b, struct moe_plan *m,
                                int32_t d_model)
{
    static const char *const hf = "shared_expert_intermediate_size",
                             *const gguf = "expert_shared_feed_forward_length";
    int32_t width = config_int(c, key_or(hf, gguf, 0, 1 << 20, 0));
    m->has_shared = width > 0;
    if (!m->has_shared)
        return;
    bind_mlp(b, &m->shared, (struct names){"mlp.shared_expert", "_shexp"}, width, d_model);
    bind_matrix(b, &m->shared_gate, (struct names){"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
                1, d_model);
}

static bool bind_dense(struct config *c, struct binder *b, struct model_plan *p, int32_t i)
{
    p->layers[i].ffn = FFN_DENSE;
    bind_mlp(b, &p->layers[i].dense, (struct names){"mlp", ""}, family_dense_width(c), p->d_model);
    return true;
}

bool family_dense_layer(struct config *c, struct binder *b, struct model_plan *p, int32_t i)
{
    int32_t step = config_int(c, key_or("decoder_sparse_step", NULL, 1, 1024, 1));
    return ((i + 1) % step || config_list_has(c, "mlp_only_layers", i)) && bind_dense(c, b, p, i);
}

bool family_first_layers_dense(struct config *c, struct binder *b, struct model_plan *p, int32_t i)
{
    int32_t n =
        config_int(c, key_or("first_k_dense_replace", "leading_dense_block_count", 0, 1024, 0));
    return i < n && bind_dense(c, b, p, i);
}

void family_read_sigmoid_router(struct config *c, struct moe_plan *m)
{
    m->score = ROUTER_SIGMOID;
    m->normalize = config_bool(c, "norm_topk_prob", "expert_weights_norm", true);
    m->scale = (float)config_number(
        c, key_or("routed_scaling_factor", "expert_weights_scale", 0, 1000, 1));
    m->n_group = config_int(c, key_or("n_group", "expert_group_count", 0, m->n_expert, 1));
    m->n_group_used =
        config_int(c, key_or("topk_group", "expert_group_used_count", 0, m->n_expert, 1));
    if (m->n_group > 1 &&
        (m->n_expert % m->n_group || m->n_group_used < 1 || m->n_group_used > m->n_group ||
         m->n_used > m->n_expert / m->n_group * m->n_group_used))
        config_fail(c, ERR_FORMAT,
                    "%d experts in %d groups, %d of them used, for %d experts a token", m->n_expert,
                    m->n_group, m->n_group_used, m->n_used);
}
