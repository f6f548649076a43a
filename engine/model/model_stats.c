/* Counts a model's bytes, parameters, KV and recurrent state from its plan. */
#include "engine/model/model_stats.h"

#include "engine/model/kv_type.h"
#include "engine/model/plan_weights.h"

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
    const struct vector *all[] = {&l->after_mixer.weight,
                                  &l->after_mixer.bias,
                                  &l->after_ffn.weight,
                                  &l->after_ffn.bias,
                                  &l->mixer_norm,
                                  &l->ffn_norm,
                                  &a->bq,
                                  &a->bk,
                                  &a->bv,
                                  &a->bo,
                                  &a->q_norm,
                                  &a->k_norm,
                                  &a->sinks,
                                  &d->conv,
                                  &d->a_log,
                                  &d->dt_bias,
                                  &d->norm,
                                  &l->dense.b_gate,
                                  &l->dense.b_up,
                                  &l->dense.b_down,
                                  &m->router_bias,
                                  &m->select_bias,
                                  &m->b_gate,
                                  &m->b_up,
                                  &m->b_down,
                                  &m->shared.b_gate,
                                  &m->shared.b_up,
                                  &m->shared.b_down};
    uint64_t n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        n += all[i]->at ? (uint64_t)all[i]->n : 0;
    return n;
}

void model_stats_from_plan(struct model_stats *f, const struct model_plan *p)
{
    plan_each_weight(p, add_weight, f);
    /* The token's row of the embedding is read in any case; a tied or shared head is read whole. */
    struct weight row = p->embed;
    row.rows = 1;
    f->active_bytes += row.type == WEIGHT_NONE ? 0 : weight_matrix_bytes(&row);
    if (!p->encoder && (p->shares_ends || p->head.data == p->embed.data)) {
        f->active_bytes += p->head.type == WEIGHT_NONE ? 0 : weight_matrix_bytes(&p->head);
        f->active_parameters += parameters_of(&p->head, 1);
    } else {
        f->active_parameters += (uint64_t)p->d_model;
    }
    for (int32_t i = 0; i < p->n_layer; i++) {
        const struct layer_plan *l = &p->layers[i];
        uint64_t vectors = layer_vectors(l);
        f->parameters += vectors;
        f->active_parameters += vectors;
        if (l->mixer == MIXER_ATTENTION)
            continue;
        const struct delta_net_plan *d = &l->delta_net;
        uint64_t channels = (uint64_t)d->w_qkv.rows;
        f->state_bytes += 4 * (channels * (uint64_t)(d->n_conv - 1) +
                               (uint64_t)d->n_v_head * (uint64_t)d->d_k * (uint64_t)d->d_v);
    }
    f->kv_bytes_per_token = kv_token_bytes(p, KV_F16);
    f->parameters += (uint64_t)p->d_model;
    f->active_parameters += (uint64_t)p->d_model;
}
