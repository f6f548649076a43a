/* Counts a model's bytes, parameters, KV and recurrent state from its plan. */
#include "engine/model/model_stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"

static bool visit_mlp(const struct mlp_plan *m, plan_visit visit, void *context)
{
    return visit(context, &m->gate, false, 1) && visit(context, &m->up, false, 1) && visit(context, &m->down, false, 1);
}

static bool visit_mixer(const struct layer_plan *l, plan_visit visit, void *context)
{
    const struct attention_plan *a = &l->attention;
    const struct delta_net_plan *d = &l->delta_net;
    const struct weight *attention[] = {&a->wq, &a->wk, &a->wv, &a->wo, NULL};
    const struct weight *delta_net[] = {&d->w_qkv, &d->w_z, &d->w_a, &d->w_b, &d->w_out, NULL};
    for (const struct weight **w = l->mixer == MIXER_ATTENTION ? attention : delta_net; *w; w++)
        if (!visit(context, *w, false, 1))
            return false;
    return true;
}

static bool visit_moe(const struct moe_plan *m, plan_visit visit, void *context)
{
    return visit(context, &m->router, false, 1) && visit(context, &m->gate, true, m->n_used) &&
           visit(context, &m->up, true, m->n_used) && visit(context, &m->down, true, m->n_used) &&
           (!m->has_shared || visit_mlp(&m->shared, visit, context)) &&
           (!m->has_shared || m->shared_gate.type == WEIGHT_NONE || visit(context, &m->shared_gate, false, 1));
}

bool plan_each_weight(const struct model_plan *p, plan_visit visit, void *context)
{
    if (!visit(context, &p->embed, false, 0))
        return false;
    if (p->head.data != p->embed.data && !visit(context, &p->head, false, 1))
        return false;
    for (int32_t i = 0; i < p->n_layer; i++) {
        const struct layer_plan *l = &p->layers[i];
        if (!visit_mixer(l, visit, context))
            return false;
        if (l->ffn == FFN_MOE ? !visit_moe(&l->moe, visit, context) : !visit_mlp(&l->dense, visit, context))
            return false;
    }
    return true;
}

/* --- bytes and parameters --- */

static uint64_t parameters_of(const struct weight *w, int64_t n)
{
    return (uint64_t)w->rows * (uint64_t)w->cols * (uint64_t)n;
}

static bool add_weight(void *context, const struct weight *w, bool is_expert, int32_t n_used)
{
    struct model_stats *f = context;
    uint64_t one = weight_matrix_bytes(w), all = one * (uint64_t)w->n_matrix;
    f->weight_bytes += all;
    *(is_expert ? &f->expert_bytes : &f->dense_bytes) += all;
    f->parameters += parameters_of(w, w->n_matrix);
    f->active_bytes += one * (uint64_t)n_used;
    f->active_parameters += parameters_of(w, n_used);
    return true;
}

static uint64_t layer_vectors(const struct layer_plan *l)
{
    const struct attention_plan *a = &l->attention;
    const struct delta_net_plan *d = &l->delta_net;
    const struct moe_plan *m = &l->moe;
    const struct vector *all[] = {
        &l->mixer_norm, &l->ffn_norm, &a->bq, &a->bk, &a->bv, &a->bo, &a->q_norm, &a->k_norm, &a->sinks,
        &d->conv, &d->a_log, &d->dt_bias, &d->norm, &l->dense.b_gate, &l->dense.b_up, &l->dense.b_down,
        &m->router_bias, &m->select_bias, &m->b_gate, &m->b_up, &m->b_down,
        &m->shared.b_gate, &m->shared.b_up, &m->shared.b_down};
    uint64_t n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        n += all[i]->at ? (uint64_t)all[i]->n : 0;
    return n;
}

void model_stats_from_plan(struct model_stats *f, const struct model_plan *p)
{
    plan_each_weight(p, add_weight, f);
    /* The token's row of the embedding is read in any case; a tied head is read whole. */
    struct weight row = p->embed;
    row.rows = 1;
    f->active_bytes += weight_matrix_bytes(&row);
    if (p->head.data == p->embed.data) {
        f->active_bytes += weight_matrix_bytes(&p->embed);
        f->active_parameters += parameters_of(&p->embed, 1);
    } else {
        f->active_parameters += (uint64_t)p->d_model;
    }
    for (int32_t i = 0; i < p->n_layer; i++) {
        const struct layer_plan *l = &p->layers[i];
        uint64_t vectors = layer_vectors(l);
        f->parameters += vectors;
        f->active_parameters += vectors;
        if (l->mixer == MIXER_ATTENTION) {
            f->kv_bytes_per_token += (uint64_t)l->attention.n_kv_head * (uint64_t)l->attention.d_head * 2 * 2;
            continue;
        }
        const struct delta_net_plan *d = &l->delta_net;
        uint64_t channels = (uint64_t)d->w_qkv.rows;
        f->state_bytes += 4 * (channels * (uint64_t)(d->n_conv - 1) +
                               (uint64_t)d->n_v_head * (uint64_t)d->d_k * (uint64_t)d->d_v);
    }
    f->parameters += (uint64_t)p->d_model;
    f->active_parameters += (uint64_t)p->d_model;
}

/* --- values --- */

struct check {
    uint64_t bytes, rows; /* first pass: sums */
    int64_t step;         /* second pass: every step-th row */
    struct err *e;
    float *row;
    int32_t row_cap;
};

static bool add_rows(void *context, const struct weight *w, bool is_expert, int32_t n_used)
{
    struct check *k = context;
    size_t scale_row = weight_scale_row_size(w);
    uint64_t rows = (uint64_t)w->n_matrix * (uint64_t)w->rows;
    k->rows += rows;
    k->bytes += rows * (scale_row ? 2 * scale_row : weight_row_size(w));
    if (w->cols > k->row_cap)
        k->row_cap = w->cols;
    return true;
}

/* The scales of a row as one-column weights, so that the format's own code reads them; formats without
 * planes are read whole. */
static bool row_is_finite(const struct check *k, const struct weight *w, int32_t matrix, int32_t row)
{
    int32_t n = w->cols;
    if (w->type != WEIGHT_AFFINE && w->type != WEIGHT_MXFP4) {
        weight_row_f32(w, matrix, row, k->row);
    } else {
        struct weight_planes p = weight_planes(w, matrix);
        static const enum weight_type types[] = {WEIGHT_BF16, WEIGHT_F16, WEIGHT_F32};
        n = w->cols / w->group;
        if (w->type == WEIGHT_MXFP4)
            return !memchr(p.scales + (size_t)row * w->scale_row_bytes, 255, (size_t)n);
        struct weight plane = {.type = types[w->scale_type], .n_matrix = 1, .rows = 1, .cols = n};
        plane.data = p.scales + (size_t)row * w->scale_row_bytes;
        weight_row_f32(&plane, 0, 0, k->row);
        plane.data = p.biases + (size_t)row * w->scale_row_bytes;
        weight_row_f32(&plane, 0, 0, k->row + n);
        n *= 2;
    }
    for (int32_t i = 0; i < n; i++)
        if (!isfinite(k->row[i]))
            return false;
    return true;
}

static bool check_rows(void *context, const struct weight *w, bool is_expert, int32_t n_used)
{
    struct check *k = context;
    int64_t rows = (int64_t)w->n_matrix * w->rows;
    for (int64_t r = 0; r < rows; r += k->step)
        if (!row_is_finite(k, w, (int32_t)(r / w->rows), (int32_t)(r % w->rows)))
            return err_field(k->e, ERR_FORMAT, w->name, "tensor %s: a scale or value in matrix %d, row %d is not finite",
                             w->name, (int)(r / w->rows), (int)(r % w->rows));
    return true;
}

bool plan_check_values(const struct model_plan *p, struct err *e)
{
    struct check k = {.e = e, .step = 1};
    plan_each_weight(p, add_rows, &k);
    if (k.bytes > CHECK_MAX_BYTES) {
        uint64_t by_bytes = k.bytes / CHECK_MAX_BYTES + 1, by_rows = k.rows / CHECK_MAX_ROWS + 1;
        k.step = (int64_t)(by_bytes > by_rows ? by_bytes : by_rows);
    }
    k.row = malloc((size_t)k.row_cap * sizeof *k.row);
    if (!k.row)
        return err_set(e, ERR_NOMEM, "no memory for a row of %d values", k.row_cap);
    bool ok = plan_each_weight(p, check_rows, &k);
    free(k.row);
    return ok;
}

/* --- fingerprint --- */

/* The first and the middle row: two models of one shape differ there, also where one is a fine-tuned
 * version of the other. */
static bool hash_weight(void *context, const struct weight *w, bool is_expert, int32_t n_used)
{
    uint64_t *h = context;
    int64_t shape[] = {w->type, w->bits, w->group, w->n_matrix, w->rows, w->cols};
    *h = hash64(w->name, strlen(w->name), *h);
    *h = hash64(shape, sizeof shape, *h);
    struct weight_planes p = weight_planes(w, w->n_matrix / 2);
    size_t n = weight_row_size(w);
    *h = hash64(p.data, n, *h);
    *h = hash64(p.data + (size_t)(w->rows / 2) * w->row_bytes, n, *h);
    if (p.scales)
        *h = hash64(p.scales, weight_scale_row_size(w), *h);
    return true;
}

uint64_t plan_fingerprint(const struct model_plan *p, uint64_t seed)
{
    uint64_t h = seed;
    plan_each_weight(p, hash_weight, &h);
    if (p->final_norm.at)
        h = hash64(p->final_norm.at, (size_t)p->final_norm.n * sizeof(float), h);
    return h;
}
