/* Collects the sizes that the planner needs to know about a model. */
#include "engine/memory/memory_plan.h"

#include "engine/experts/cache/expert_cache.h"
#include "engine/experts/pack/expert_pack.h"

#define SLOT_ROUNDING 4096 /* of a layer's parts on the device */

/* Measures the smallest and the largest useful expert cache. Records are cached whole. */
static void measure_cache(const struct model *m, struct memory_model *out)
{
    struct expert_layout l = {0};
    struct err ignored;
    if (!out->experts || !expert_layout_pick(&l, m, NULL, &ignored))
        return; /* such experts cannot be read one by one */
    for (int32_t i = 0; i < l.n_layers; i++) {
        uint64_t layer = (uint64_t)l.layers[i].n_expert * l.layers[i].record_bytes;
        out->cache_most += layer;
        out->layer_most = layer > out->layer_most ? layer : out->layer_most;
    }
    out->cache_least = expert_cache_min_bytes(&l);
    expert_layout_close(&l);
}

static uint64_t active_experts(const struct moe_plan *m)
{
    return (uint64_t)m->n_used * (weight_matrix_bytes(&m->gate) + weight_matrix_bytes(&m->up) +
                                  weight_matrix_bytes(&m->down));
}

void memory_model_of(const struct model *m, struct memory_model *out)
{
    const struct model_plan *plan = model_plan(m);
    const struct model_stats *f = model_stats(m);
    *out = (struct memory_model){.n_ctx = plan->n_ctx,
                                 .n_layer = plan->n_layer,
                                 .recurrent = plan->n_recurrent > 0,
                                 .weights = f->weight_bytes,
                                 .dense = f->dense_bytes,
                                 .experts = f->expert_bytes};
    for (int t = 0; t < KV__N; t++)
        out->kv_per_token[t] = kv_token_bytes(plan, (enum kv_type)t);
    for (int32_t i = 0; i < plan->n_layer; i++)
        if (plan->layers[i].ffn == FFN_MOE) {
            out->n_moe++;
            const struct moe_plan *moe = &plan->layers[i].moe;
            out->n_expert = moe->n_expert > out->n_expert ? moe->n_expert : out->n_expert;
            out->n_used = moe->n_used > out->n_used ? moe->n_used : out->n_used;
            out->active_experts += active_experts(moe);
            /* one expert a layer at the least, twice that for what the device's layout adds */
            out->slots_least += active_experts(moe) / (uint64_t)moe->n_used * 2 + SLOT_ROUNDING;
        }
    out->active_dense = f->active_bytes - out->active_experts;
    measure_cache(m, out);
}
