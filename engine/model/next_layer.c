/* Binds a next-token layer as the one layer of a plan. */
#include "engine/model/next_layer.h"

#include <stdio.h>

struct next_names {
    struct names fc, embed_norm, hidden_norm, norm;
};

static const struct next_names by_module = {
    .fc = {"fc", NULL},
    .embed_norm = {"pre_fc_norm_embedding", NULL},
    .hidden_norm = {"pre_fc_norm_hidden", NULL},
    .norm = {"norm", NULL},
};
static const struct next_names by_layer = {
    .fc = {"eh_proj", "nextn.eh_proj"},
    .embed_norm = {"enorm", "nextn.enorm"},
    .hidden_norm = {"hnorm", "nextn.hnorm"},
    .norm = {"shared_head.norm", "nextn.shared_head_norm"},
};

static void add_one(struct vector *v)
{
    float *at = (float *)(uintptr_t)v->at; /* our own copy, see bind_vector */
    for (int32_t i = 0; at && i < v->n; i++)
        at[i] += 1;
}

/* Where it lies: a layer behind the last one, or a module beside the model. NULL: nowhere. */
static const struct next_names *find(struct binder *b, const struct model_plan *p, char *prefix,
                                     size_t size)
{
    b->layer = p->n_layer;
    if (bind_has(b, by_layer.fc))
        return &by_layer;
    b->layer = -1;
    const char *const outside[] = {b->head_prefix, "", b->model_prefix};
    for (size_t i = 0; i < sizeof outside / sizeof *outside && !b->gguf; i++) {
        snprintf(prefix, size, "%smtp.", outside[i]);
        struct binder at = *b;
        at.model_prefix = prefix;
        if (!bind_has(&at, by_module.fc))
            continue;
        b->model_prefix = prefix;
        return &by_module;
    }
    return NULL;
}

static void bind_joint(struct binder *b, const struct next_names *n, struct model_plan *next,
                       bool less_one)
{
    const int32_t d = next->d_model;
    struct joint_plan *j = &next->joint;
    bind_matrix(b, &j->fc, n->fc, d, 2 * d);
    bind_vector(b, &j->embed_norm, n->embed_norm, d);
    bind_vector(b, &j->hidden_norm, n->hidden_norm, d);
    next->final_norm = (struct vector){0};
    bind_vector(b, &next->final_norm, n->norm, d);
    if (!less_one)
        return;
    add_one(&j->embed_norm);
    add_one(&j->hidden_norm);
    add_one(&next->final_norm);
}

/* The layer as its family reads layer n_layer of the configuration. */
static void bind_layer(const struct family *f, struct config *c, struct binder *b,
                       struct model_plan *p, bool less_one)
{
    struct layer_plan *l = &p->layers[p->n_layer];
    bind_vector(b, &l->mixer_norm, f->mixer_norm, p->d_model);
    bind_vector(b, &l->ffn_norm, f->ffn_norm, p->d_model);
    f->layer(c, b, p, p->n_layer);
    if (less_one) {
        add_one(&l->mixer_norm);
        add_one(&l->ffn_norm);
        add_one(&l->attention.q_norm);
        add_one(&l->attention.k_norm);
    }
    l->kv_index = 0;
    l->state_index = -1;
}

bool next_layer_build(const struct family *f, const struct config *c, const struct binder *b,
                      const struct model_plan *p, struct model_plan *next, struct err *e)
{
    char prefix[128];
    struct binder own = *b;
    struct config config = *c; /* a fault in the layer is none of the model's */
    own.config = &config;
    const struct next_names *names =
        f->ends || b->manifest ? NULL : find(&own, p, prefix, sizeof prefix);
    if (!names)
        return err_set(e, ERR_NOTFOUND, "the model has no next-token layer");
    const bool less_one = f->norm_less_one && f->norm_less_one((struct binder *)(uintptr_t)b);
    *next = *p;
    bind_joint(&own, names, next, less_one);
    if (names == &by_module)
        own.layer = 0;
    bind_layer(f, &config, &own, next, less_one);
    if (config.failed)
        *e = config.failure;
    if (config.failed || !bind_finish(&own, e))
        return err_prefix(e, "next-token layer");
    next->layers = p->layers + p->n_layer;
    next->n_layer = next->n_attention = 1;
    next->n_recurrent = 0;
    next->shares_ends = true;
    next->fingerprint = 0;
    return next->layers[0].mixer == MIXER_ATTENTION ||
           err_set(e, ERR_UNSUPPORTED, "the next-token layer has no attention");
}
