/* See residual_norm.h. LayerNorm of a row: (x - mean) / sqrt(variance + eps) * weight + bias
 * (Ba et al. 2016); post-norm as in BERT (Devlin et al. 2018). */
#include "engine/cpu/residual_norm.h"

static float *row_at(const struct backend *b, int32_t t)
{
    return b->x + (size_t)t * (size_t)b->plan->d_model;
}

static void add_row(struct worker *w, const struct weight *table, int32_t row, float *x)
{
    const int32_t d = w->backend->plan->d_model;
    if (table->type == WEIGHT_NONE)
        return;
    weight_row_f32(table, 0, row < table->rows ? row : table->rows - 1, w->row);
    for (int32_t i = 0; i < d; i++)
        x[i] += w->row[i];
}

void residual_begin(struct worker *w, int32_t t)
{
    struct backend *b = w->backend;
    const struct embed_plan *p = &b->plan->embedding;
    const struct step_sequence *s = &b->step->sequences[b->rows.sequence[t]];
    const int32_t position = b->rows.position[t], segment = s->n_first && position >= s->n_first;
    float *x = row_at(b, t);
    add_row(w, &p->positions, position + p->first_position, x);
    add_row(w, &p->types, segment, x);
    if (p->norm.weight.at)
        b->kernels->layer_norm(&p->norm, x, b->plan->norm_eps, b->plan->d_model, x);
}

void residual_norm(struct worker *w, const struct layer_norm_plan *norm)
{
    struct backend *b = w->backend;
    int32_t from, to;
    if (!norm->weight.at)
        return;
    worker_share(w, b->rows.n, &from, &to);
    for (int32_t t = from; t < to; t++)
        b->kernels->layer_norm(norm, row_at(b, t), b->plan->norm_eps, b->plan->d_model,
                               row_at(b, t));
    worker_barrier(w);
}
