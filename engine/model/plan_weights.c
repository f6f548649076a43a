/* Visits every matrix of a plan, checks its values, and hashes a sample of them as the plan's
 * fingerprint. */
#include "engine/model/plan_weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"

static bool visit_mlp(const struct mlp_plan *m, plan_visit visit, void *context)
{
    return visit(context, &m->gate, false, 1) &&
           (m->up.type == WEIGHT_NONE || visit(context, &m->up, false, 1)) &&
           visit(context, &m->down, false, 1);
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
           (!m->has_shared || m->shared_gate.type == WEIGHT_NONE ||
            visit(context, &m->shared_gate, false, 1));
}

/* Tables of positions and types, read a row a token, and the scorer's, read once a text. */
static bool visit_encoder(const struct model_plan *p, plan_visit visit, void *context)
{
    const struct weight *all[] = {&p->embedding.positions, &p->embedding.types, &p->scorer.dense,
                                  &p->scorer.out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->type != WEIGHT_NONE && !visit(context, all[i], false, 0))
            return false;
    return true;
}

bool plan_each_weight(const struct model_plan *p, plan_visit visit, void *context)
{
    if ((!p->shares_ends && !visit(context, &p->embed, false, 0)) ||
        !visit_encoder(p, visit, context))
        return false;
    if (p->joint.fc.type != WEIGHT_NONE && !visit(context, &p->joint.fc, false, 1))
        return false;
    if (p->context.fc.type != WEIGHT_NONE && !visit(context, &p->context.fc, false, 1))
        return false;
    if (!p->encoder && !p->shares_ends && p->head.data != p->embed.data &&
        !visit(context, &p->head, false, 1))
        return false;
    for (int32_t i = 0; i < p->n_layer; i++) {
        const struct layer_plan *l = &p->layers[i];
        if (!visit_mixer(l, visit, context))
            return false;
        if (l->ffn == FFN_MOE ? !visit_moe(&l->moe, visit, context)
                              : !visit_mlp(&l->dense, visit, context))
            return false;
    }
    return true;
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

/* The scales of a row as one-column weights, so that the format's own code reads them; formats
 * without planes are read whole. */
static bool row_is_finite(const struct check *k, const struct weight *w, int32_t matrix,
                          int32_t row)
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
            return err_field(k->e, ERR_FORMAT, w->name,
                             "tensor %s: a scale or value in matrix %d, row %d is not finite",
                             w->name, (int)(r / w->rows), (int)(r % w->rows));
    return true;
}

bool plan_check_values(const struct model_plan *p, struct err *e)
{
    struct check k = {.e = e, .step = 1};
    plan_each_weight(p, add_rows, &k);
    if (k.bytes > PLAN_CHECK_MAX_BYTES) {
        uint64_t by_bytes = k.bytes / PLAN_CHECK_MAX_BYTES + 1,
                 by_rows = k.rows / PLAN_CHECK_MAX_ROWS + 1;
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

/* The first and the middle row: two models of one shape differ there, also where one is a
 * fine-tuned version of the other. */
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
