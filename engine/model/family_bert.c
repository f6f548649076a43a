/* BERT and RoBERTa, XLM-RoBERTa included: encoders for embeddings and scores. Their layers are
 * post-norm, positions are a table, and every token sees the whole text.
 *
 * Names after the checkpoints of transformers (BertModel, XLMRobertaModel, and both
 * ForSequenceClassification) and after GGUF files of the architecture "bert". */
#include <math.h>
#include <string.h>

#include "engine/model/family.h"

/* What is computed is said by config.json; all else is refused, since it would give other vectors.
 */
static bool accept(struct config *c, struct err *e)
{
    if (c->gguf)
        return true;
    const char *activation = config_string(c, "hidden_act");
    const char *positions = config_string(c, "position_embedding_type");
    if (activation && strcmp(activation, "gelu") != 0)
        return err_set(e, ERR_UNSUPPORTED, "hidden_act is '%.40s', want gelu", activation);
    if (positions && strcmp(positions, "absolute") != 0)
        return err_set(e, ERR_UNSUPPORTED, "position_embedding_type is '%.40s', want absolute",
                       positions);
    return !config_bool(c, "is_decoder", NULL, false) ||
           err_set(e, ERR_UNSUPPORTED, "is_decoder: a BERT that writes text is not read");
}

/* RoBERTa's first position is behind the padding's id; its GGUF files leave those rows out. */
static bool is_roberta(struct config *c)
{
    const char *type = c->gguf ? NULL : config_string(c, "model_type");
    return type && (!strcmp(type, "roberta") || !strcmp(type, "xlm-roberta"));
}

static void read(struct config *c, struct model_plan *p)
{
    p->encoder = true;
    p->n_layer = config_int(c, key_needed("num_hidden_layers", "block_count", 1, 1024));
    p->d_model = config_int(c, key_needed("hidden_size", "embedding_length", 1, 1 << 17));
    p->n_ctx = config_int(c, key_needed("max_position_embeddings", "context_length", 3, 1 << 24));
    p->norm_eps = (float)config_number(
        c, key_or("layer_norm_eps", "attention.layer_norm_epsilon", 0, 1, 1e-12));
    p->n_vocab = config_int(c, key_or("vocab_size", "vocab_size", 1, 1 << 24, c->n_vocab));
    if (is_roberta(c)) {
        p->embedding.first_position = config_int(c, key_or("pad_token_id", NULL, 0, 64, 1)) + 1;
        p->n_ctx -= p->embedding.first_position;
    }
    if (!p->n_vocab || p->n_ctx < 1)
        config_fail(c, ERR_FORMAT, "%d tokens and %d positions", p->n_vocab, p->n_ctx);
}

struct norm_names {
    struct names weight, bias;
};

static void bind_layer_norm(struct binder *b, struct layer_norm_plan *n,
                            const struct norm_names *names, int32_t d)
{
    bind_vector(b, &n->weight, names->weight, d);
    bind_vector(b, &n->bias, names->bias, d);
}

/* One label over the first token's vector: bge-reranker and its like. Heads of several labels are
 * for other tasks and stay unused. */
static void bind_scorer(struct binder *b, struct model_plan *p)
{
    static const struct names dense = {"classifier.dense|bert.pooler.dense", "cls"},
                              out = {"classifier.out_proj|classifier", "cls.output"};
    int32_t d = p->d_model;
    b->outside = true;
    if (!b->manifest && bind_has(b, out) && bind_has(b, dense)) {
        const struct tensor *t = bind_find(b, out, NULL, 0);
        if (t->n_dims == 1 || t->dims[0] == 1) {
            bind_matrix(b, &p->scorer.dense, dense, d, d);
            bind_vector(b, &p->scorer.dense_bias,
                        (struct names){"classifier.dense.bias|bert.pooler.dense.bias", "cls.bias"},
                        d);
            bind_matrix(b, &p->scorer.out, out, 1, d);
            bind_vector(
                b, &p->scorer.out_bias,
                (struct names){"classifier.out_proj.bias|classifier.bias", "cls.output.bias"}, 1);
        }
    }
    b->outside = false;
}

/* Rows of the table of segments: as many as the file has, none in some. */
static int32_t count_types(const struct binder *b, struct config *c, struct names n)
{
    struct binder look = *b;
    if (!c->gguf)
        return config_int(c, key_or("type_vocab_size", NULL, 0, 64, 2));
    const struct tensor *t = b->manifest ? NULL : bind_find(&look, n, NULL, 0);
    return !t ? 0 : t->n_dims == 1 ? 1 : (int32_t)t->dims[0];
}

static void ends(struct config *c, struct binder *b, struct model_plan *p)
{
    static const struct names types = {"embeddings.token_type_embeddings", "token_types"};
    static const struct norm_names norm = {
        {"embeddings.LayerNorm", "token_embd_norm"},
        {"embeddings.LayerNorm.bias", "token_embd_norm.bias"},
    };
    int32_t d = p->d_model, n_types = count_types(b, c, types);
    bind_matrix(b, &p->embed, (struct names){"embeddings.word_embeddings", "token_embd"},
                p->n_vocab, d);
    bind_matrix(b, &p->embedding.positions,
                (struct names){"embeddings.position_embeddings", "position_embd"},
                p->n_ctx + p->embedding.first_position, d);
    if (n_types)
        bind_matrix(b, &p->embedding.types, types, n_types, d);
    bind_layer_norm(b, &p->embedding.norm, &norm, d);
    bind_scorer(b, p);
}

static void bind_attention(struct binder *b, struct attention_plan *a, int32_t d)
{
    static const struct norm_names names[] = {
        {{"attention.self.query", "attn_q"}, {"attention.self.query.bias", "attn_q.bias"}},
        {{"attention.self.key", "attn_k"}, {"attention.self.key.bias", "attn_k.bias"}},
        {{"attention.self.value", "attn_v"}, {"attention.self.value.bias", "attn_v.bias"}},
        {{"attention.output.dense", "attn_output"},
         {"attention.output.dense.bias", "attn_output.bias"}},
    };
    struct weight *weights[] = {&a->wq, &a->wk, &a->wv, &a->wo};
    struct vector *biases[] = {&a->bq, &a->bk, &a->bv, &a->bo};
    for (int i = 0; i < 4; i++) {
        bind_matrix(b, weights[i], names[i].weight, d, d);
        bind_vector(b, biases[i], names[i].bias, d);
    }
}

static void layer(struct config *c, struct binder *b, struct model_plan *p, int32_t i)
{
    static const struct norm_names after_mixer = {
        {"attention.output.LayerNorm", "attn_output_norm"},
        {"attention.output.LayerNorm.bias", "attn_output_norm.bias"},
    };
    static const struct norm_names after_ffn = {
        {"output.LayerNorm", "layer_output_norm"},
        {"output.LayerNorm.bias", "layer_output_norm.bias"},
    };
    struct layer_plan *l = &p->layers[i];
    struct attention_plan *a = &l->attention;
    int32_t d = p->d_model;
    l->mixer = MIXER_ATTENTION;
    a->n_head = a->n_kv_head =
        config_int(c, key_needed("num_attention_heads", "attention.head_count", 1, 4096));
    if (d % a->n_head)
        config_fail(c, ERR_FORMAT, "%d values over %d heads", d, a->n_head);
    a->d_head = d / a->n_head;
    a->scale = 1 / sqrtf((float)a->d_head);
    a->bidirectional = true;
    bind_attention(b, a, d);
    bind_layer_norm(b, &l->after_mixer, &after_mixer, d);
    l->ffn = FFN_DENSE;
    l->activation = ACT_GELU;
    l->dense.d_ff = family_dense_width(c);
    bind_matrix(b, &l->dense.gate, (struct names){"intermediate.dense", "ffn_up"}, l->dense.d_ff,
                d);
    bind_vector(b, &l->dense.b_gate, (struct names){"intermediate.dense.bias", "ffn_up.bias"},
                l->dense.d_ff);
    bind_matrix(b, &l->dense.down, (struct names){"output.dense", "ffn_down"}, d, l->dense.d_ff);
    bind_vector(b, &l->dense.b_down, (struct names){"output.dense.bias", "ffn_down.bias"}, d);
    bind_layer_norm(b, &l->after_ffn, &after_ffn, d);
}

const struct family family_bert = {
    .name = "bert",
    .model_types = (const char *const[]){"bert", "roberta", "xlm-roberta", NULL},
    .gguf_archs = (const char *const[]){"bert", NULL},
    .accept = accept,
    .read = read,
    .layer = layer,
    .ends = ends,
};
