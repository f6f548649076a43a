/* The context step of a block-diffusion drafter: hidden states joined by fc, then keys and values
 * of every layer. */
#include "engine/cpu/context.h"

#include <string.h>

#include "engine/cpu/matmul.h"
#include "engine/cpu/mixer.h"

void context_run(struct worker *w)
{
    struct backend *b = w->backend;
    const struct context_plan *c = &b->plan->context;
    const size_t wide = (size_t)c->fc.cols;
    int32_t from, to;
    worker_share(w, b->rows.n, &from, &to);
    for (int32_t t = from; t < to; t++)
        memcpy(b->q + (size_t)t * wide, b->rows.given[t], wide * sizeof(float));
    worker_barrier(w);
    struct panel panel = matmul_pack(w, &(struct pack){.slot = PANEL_MIXED,
                                                       .x = b->q,
                                                       .stride = wide,
                                                       .n = b->rows.n,
                                                       .cols = c->fc.cols,
                                                       .kinds = matmul_kinds(w, &c->fc)});
    matmul_run(w,
               &(struct product){.weight = &c->fc,
                                 .panel = &panel,
                                 .n = b->rows.n,
                                 .out = b->x,
                                 .stride = (size_t)b->plan->d_model},
               1);
    worker_barrier(w);
    for (int32_t i = 0; i < b->plan->n_layer; i++)
        attention_keep(w, &b->plan->layers[i], i, c->norm.at);
}
