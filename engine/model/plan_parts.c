/* Sums up a plan's bytes by part of the model and by weight format. */
#include "engine/model/plan_parts.h"

#include <stdlib.h>
#include <string.h>

const char *plan_part_name(enum plan_part part)
{
    static const char *const names[PART__N] = {"embedding and head", "attention", "routers",
                                               "dense and shared", "experts"};
    return names[part];
}

static void add(struct plan_parts *p, enum plan_part part, const struct weight *w)
{
    if (w->type == WEIGHT_NONE)
        return;
    char buf[24];
    const char *text = weight_type_text(w, buf, sizeof buf);
    uint64_t bytes = (uint64_t)weight_matrix_bytes(w) * (uint64_t)w->n_matrix;
    p->bytes[part] += bytes;
    struct plan_part_format *f = p->formats[part];
    int i = 0;
    while (i < PART_MAX_FORMATS - 1 && f[i].text[0] && strcmp(f[i].text, text))
        i++;
    strncpy(f[i].text, text, sizeof f[i].text - 1);
    f[i].bytes += bytes;
}

static void add_mlp(struct plan_parts *p, const struct mlp_plan *m)
{
    add(p, PART_DENSE, &m->gate);
    add(p, PART_DENSE, &m->up);
    add(p, PART_DENSE, &m->down);
}

static void add_layer(struct plan_parts *p, const struct layer_plan *l)
{
    const struct attention_plan *a = &l->attention;
    const struct delta_net_plan *d = &l->delta_net;
    const struct weight *mixer[] = {&a->wq,  &a->wk,  &a->wv,  &a->wo,   &d->w_qkv,
                                    &d->w_z, &d->w_a, &d->w_b, &d->w_out};
    for (size_t i = 0; i < sizeof mixer / sizeof *mixer; i++)
        add(p, PART_MIXERS, mixer[i]);
    add_mlp(p, &l->dense);
    add_mlp(p, &l->moe.shared);
    add(p, PART_DENSE, &l->moe.shared_gate);
    add(p, PART_ROUTERS, &l->moe.router);
    add(p, PART_EXPERTS, &l->moe.gate);
    add(p, PART_EXPERTS, &l->moe.up);
    add(p, PART_EXPERTS, &l->moe.down);
}

static int by_bytes(const void *a, const void *b)
{
    const struct plan_part_format *x = a, *y = b;
    return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

void plan_parts_of(struct plan_parts *p, const struct model_plan *plan)
{
    *p = (struct plan_parts){0};
    add(p, PART_ENDS, &plan->embed);
    add(p, PART_ENDS, &plan->embedding.positions);
    add(p, PART_ENDS, &plan->embedding.types);
    add(p, PART_ENDS, &plan->scorer.dense);
    add(p, PART_ENDS, &plan->scorer.out);
    if (plan->head.data != plan->embed.data)
        add(p, PART_ENDS, &plan->head);
    for (int32_t i = 0; i < plan->n_layer; i++)
        add_layer(p, &plan->layers[i]);
    for (int i = 0; i < PART__N; i++)
        qsort(p->formats[i], PART_MAX_FORMATS, sizeof **p->formats, by_bytes);
}
