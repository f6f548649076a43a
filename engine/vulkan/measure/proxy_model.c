/* Finds the kinds of a plan's layers and makes a plan of a few layers of each, whose weights all
 * share one small buffer. */
#include "engine/vulkan/measure/proxy_model.h"

#include <stdlib.h>
#include <string.h>

#define HEAD_BYTES ((uint64_t)16 << 20) /* of the vocabulary's matrix */
#define FILLER 0x3c                     /* makes small finite values in every format */

/* --- kinds --- */

static bool same_weight(const struct weight *a, const struct weight *b)
{
    return a->type == b->type && a->bits == b->bits && a->group == b->group &&
           a->scale_type == b->scale_type && a->rows == b->rows && a->cols == b->cols;
}

static bool same_mlp(const struct mlp_plan *a, const struct mlp_plan *b)
{
    return same_weight(&a->gate, &b->gate) && same_weight(&a->up, &b->up) &&
           same_weight(&a->down, &b->down);
}

static bool same_attention(const struct attention_plan *a, const struct attention_plan *b)
{
    return a->n_head == b->n_head && a->n_kv_head == b->n_kv_head && a->d_head == b->d_head &&
           a->window == b->window && same_weight(&a->wq, &b->wq) && same_weight(&a->wk, &b->wk) &&
           same_weight(&a->wv, &b->wv) && same_weight(&a->wo, &b->wo);
}

static bool same_delta_net(const struct delta_net_plan *a, const struct delta_net_plan *b)
{
    return a->n_k_head == b->n_k_head && a->n_v_head == b->n_v_head && a->d_k == b->d_k &&
           a->d_v == b->d_v && same_weight(&a->w_qkv, &b->w_qkv) && same_weight(&a->w_z, &b->w_z) &&
           same_weight(&a->w_out, &b->w_out);
}

static bool same_moe(const struct moe_plan *a, const struct moe_plan *b)
{
    return a->n_expert == b->n_expert && a->n_used == b->n_used &&
           same_weight(&a->router, &b->router) && same_weight(&a->gate, &b->gate) &&
           same_weight(&a->up, &b->up) && same_weight(&a->down, &b->down) &&
           a->has_shared == b->has_shared && (!a->has_shared || same_mlp(&a->shared, &b->shared));
}

static bool same_layer(const struct layer_plan *a, const struct layer_plan *b)
{
    return a->mixer == b->mixer && a->ffn == b->ffn &&
           (a->mixer == MIXER_ATTENTION ? same_attention(&a->attention, &b->attention)
                                        : same_delta_net(&a->delta_net, &b->delta_net)) &&
           (a->ffn == FFN_MOE ? same_moe(&a->moe, &b->moe) : same_mlp(&a->dense, &b->dense));
}

static uint64_t mlp_bytes(const struct mlp_plan *m)
{
    return weight_matrix_bytes(&m->gate) + weight_matrix_bytes(&m->up) +
           weight_matrix_bytes(&m->down);
}

static void count_bytes(const struct layer_plan *l, struct proxy_model_kind *k)
{
    const struct attention_plan *a = &l->attention;
    const struct delta_net_plan *d = &l->delta_net;
    if (l->mixer == MIXER_ATTENTION) {
        k->bytes = weight_matrix_bytes(&a->wq) + weight_matrix_bytes(&a->wk) +
                   weight_matrix_bytes(&a->wv) + weight_matrix_bytes(&a->wo);
    } else {
        k->bytes = weight_matrix_bytes(&d->w_qkv) + weight_matrix_bytes(&d->w_z) +
                   weight_matrix_bytes(&d->w_a) + weight_matrix_bytes(&d->w_b) +
                   weight_matrix_bytes(&d->w_out);
    }
    if (l->ffn == FFN_DENSE) {
        k->bytes += mlp_bytes(&l->dense);
        return;
    }
    const struct moe_plan *m = &l->moe;
    k->expert_bytes =
        (uint64_t)m->n_used * (weight_matrix_bytes(&m->gate) + weight_matrix_bytes(&m->up) +
                               weight_matrix_bytes(&m->down));
    k->bytes += k->expert_bytes + weight_matrix_bytes(&m->router) +
                (m->has_shared ? mlp_bytes(&m->shared) : 0);
}

/* Kinds beyond the room for them are rare ones: they count with the last. */
static void find_kinds(struct proxy_model *m, const struct model_plan *plan)
{
    for (int32_t i = 0; i < plan->n_layer; i++) {
        int32_t k = 0;
        while (k < m->n_kinds && !same_layer(&plan->layers[m->kinds[k].like], &plan->layers[i]))
            k++;
        if (k == PROXY_MODEL_KINDS) {
            k--;
        } else if (k == m->n_kinds) {
            m->kinds[m->n_kinds++].like = i;
            count_bytes(&plan->layers[i], &m->kinds[k]);
        }
        m->kinds[k].count++;
    }
}

static int32_t count_layers(struct proxy_model *m, uint64_t bytes)
{
    int32_t n = 0;
    for (int32_t k = 0; k < m->n_kinds; k++) {
        struct proxy_model_kind *kind = &m->kinds[k];
        uint64_t fit = bytes / (uint64_t)m->n_kinds / (kind->bytes ? kind->bytes : 1);
        int32_t most = kind->count < PROXY_MODEL_MAX_LAYERS ? kind->count : PROXY_MODEL_MAX_LAYERS,
                least = most < PROXY_MODEL_MIN_LAYERS ? most : PROXY_MODEL_MIN_LAYERS;
        kind->n = fit < (uint64_t)least ? least : fit < (uint64_t)most ? (int32_t)fit : most;
        kind->first = n;
        n += kind->n;
    }
    return n;
}

/* --- weights and vectors --- */

struct filler {
    size_t row, vector; /* bytes of the longest row of a weight, of the longest vector */
    uint8_t *rows;      /* NULL: only these are found */
    float *zeros;
};

/* Every row of every matrix is the same memory, so that the host holds one row and no matrices. */
static void fill_weight(struct filler *f, struct weight *w, int32_t n_matrix)
{
    if (w->type == WEIGHT_NONE)
        return;
    size_t row = weight_row_size(w), scales = weight_scale_row_size(w);
    f->row = row > f->row ? row : f->row;
    f->row = scales > f->row ? scales : f->row;
    if (!f->rows)
        return;
    bool biases = w->biases || (w->table && w->table[0].biases);
    w->n_matrix = n_matrix;
    w->row_bytes = w->matrix_bytes = w->scale_row_bytes = w->scale_matrix_bytes = 0;
    w->table = NULL;
    w->data = f->rows;
    w->scales = scales ? f->rows : NULL;
    w->biases = biases ? f->rows : NULL;
}

static void fill_vector(struct filler *f, struct vector *v)
{
    if (v->at) {
        f->vector =
            (size_t)v->n * sizeof(float) > f->vector ? (size_t)v->n * sizeof(float) : f->vector;
        v->at = f->rows ? f->zeros : v->at;
    }
}

static void fill_mlp(struct filler *f, struct mlp_plan *m)
{
    fill_weight(f, &m->gate, 1);
    fill_weight(f, &m->up, 1);
    fill_weight(f, &m->down, 1);
    fill_vector(f, &m->b_gate);
    fill_vector(f, &m->b_up);
    fill_vector(f, &m->b_down);
}

static void fill_moe(struct filler *f, struct moe_plan *m)
{
    struct vector *const vectors[] = {&m->router_bias, &m->select_bias, &m->b_gate, &m->b_up,
                                      &m->b_down};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        fill_vector(f, vectors[i]);
    fill_weight(f, &m->router, 1);
    fill_weight(f, &m->gate,
                m->n_used); /* the router's logits are equal: it takes the first ones */
    fill_weight(f, &m->up, m->n_used);
    fill_weight(f, &m->down, m->n_used);
    if (m->has_shared) {
        fill_mlp(f, &m->shared);
        fill_weight(f, &m->shared_gate, 1);
    }
}

static void fill_layer(struct filler *f, struct layer_plan *l)
{
    struct attention_plan *a = &l->attention;
    struct delta_net_plan *d = &l->delta_net;
    struct vector *const vectors[] = {&l->mixer_norm, &l->ffn_norm, &a->bq,     &a->bk,    &a->bv,
                                      &a->bo,         &a->q_norm,   &a->k_norm, &a->sinks, &d->conv,
                                      &d->a_log,      &d->dt_bias,  &d->norm};
    struct weight *const weights[] = {&a->wq,  &a->wk,  &a->wv,  &a->wo,   &d->w_qkv,
                                      &d->w_z, &d->w_a, &d->w_b, &d->w_out};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        fill_vector(f, vectors[i]);
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
        fill_weight(f, weights[i], 1);
    if (l->ffn == FFN_MOE)
        fill_moe(f, &l->moe);
    else
        fill_mlp(f, &l->dense);
}

static void fill_all(struct filler *f, struct model_plan *p)
{
    fill_weight(f, &p->embed, 1);
    fill_weight(f, &p->head, 1);
    if (f->rows) {
        p->head.data =
            f->rows +
            1; /* not the embedding's: a matrix of its own, even where the model ties them */
    }
    fill_vector(f, &p->final_norm);
    for (int32_t i = 0; i < p->n_layer; i++)
        fill_layer(f, &p->layers[i]);
}

static void copy_layers(struct proxy_model *m, const struct model_plan *plan)
{
    struct model_plan *p = &m->plan;
    p->n_attention = p->n_recurrent = 0;
    for (int32_t k = 0; k < m->n_kinds; k++) {
        for (int32_t i = 0; i < m->kinds[k].n; i++) {
            struct layer_plan *l = &p->layers[m->kinds[k].first + i];
            *l = plan->layers[m->kinds[k].like];
            l->kv_index = l->mixer == MIXER_ATTENTION ? p->n_attention++ : -1;
            l->state_index = l->mixer == MIXER_ATTENTION ? -1 : p->n_recurrent++;
        }
    }
}

static void cut_head(struct proxy_model *m, const struct model_plan *plan)
{
    struct model_plan *p = &m->plan;
    uint64_t row = weight_row_size(&p->head) + 2 * weight_scale_row_size(&p->head),
             rows = HEAD_BYTES / (row ? row : 1);
    p->n_vocab = rows < (uint64_t)plan->n_vocab ? (int32_t)rows : plan->n_vocab;
    p->head.rows = p->n_vocab;
    p->embed.rows = 1; /* only token 0 comes in */
    m->head_share = (double)p->n_vocab / plan->n_vocab;
}

bool proxy_model_init(struct proxy_model *m, const struct model_plan *plan, uint64_t bytes,
                      struct err *e)
{
    *m = (struct proxy_model){.plan = *plan};
    find_kinds(m, plan);
    m->plan.n_layer = count_layers(m, bytes);
    m->plan.layers = calloc((size_t)m->plan.n_layer, sizeof *m->plan.layers);
    if (!m->plan.layers)
        return err_set(e, ERR_NOMEM, "no memory for %d layers", m->plan.n_layer);
    copy_layers(m, plan);
    cut_head(m, plan);
    struct filler f = {0};
    fill_all(&f, &m->plan);
    size_t rows = (f.row + 64) / 64 * 64;
    m->memory = calloc(1, rows + f.vector);
    if (!m->memory) {
        proxy_model_fini(m);
        return err_set(e, ERR_NOMEM, "no memory for a probe of %zu bytes", rows + f.vector);
    }
    f.rows = m->memory;
    f.zeros = (float *)(void *)(f.rows + rows);
    memset(f.rows, FILLER, rows);
    fill_all(&f, &m->plan);
    return true;
}

void proxy_model_fini(struct proxy_model *m)
{
    free(m->plan.layers);
    free(m->memory);
    *m = (struct proxy_model){0};
}
