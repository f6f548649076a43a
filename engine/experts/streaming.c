/* See streaming.h. */
#include "engine/experts/streaming.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LOG_MODULE "experts"
#include "engine/base/log.h"
#include "engine/experts/owned_weights.h"
#include "engine/experts/pack/expert_pack.h"

struct streaming {
    struct expert_layout layout;
    struct model_plan plan; /* the model's with dense weights moved; the store's adds the experts */
    struct owned_weights dense;
    struct expert_store *store;
};

static bool own_dense(struct streaming *s, const struct model *m, bool stays, struct err *e)
{
    const struct model_plan *from = model_plan(m);
    size_t bytes = (size_t)from->n_layer * sizeof *from->layers;
    s->plan = *from;
    s->plan.layers = malloc(bytes);
    if (!s->plan.layers)
        return err_set(e, ERR_NOMEM, "no memory for %d layers", from->n_layer);
    memcpy(s->plan.layers, from->layers, bytes);
    return stays || owned_weights_init(&s->dense, &s->plan, m, e);
}

struct streaming *streaming_open(const struct model *m, const struct streaming_params *p, struct err *e)
{
    struct streaming *s = calloc(1, sizeof *s);
    if (!s) {
        err_set(e, ERR_NOMEM, "no memory to stream experts");
        return NULL;
    }
    if (!expert_layout_pick(&s->layout, m, p->pack_dir, e) || !own_dense(s, m, p->outside > 0, e)) {
        streaming_close(&s);
        return NULL;
    }
    s->store = expert_store_open(&(struct expert_store_params){.layout = &s->layout,
                                                               .plan = &s->plan,
                                                               .budget = p->cache_bytes,
                                                               .outside = p->outside,
                                                               .depth = p->depth,
                                                               .chunk = p->chunk,
                                                               .state_dir = p->state_dir,
                                                               .no_prefetch = p->no_prefetch || p->outside,
                                                               .no_uring = p->no_uring,
                                                               .no_direct = p->no_direct},
                                 e);
    if (!s->store) {
        streaming_close(&s);
        return NULL;
    }
    log_info("experts stay on disk: bytes=%" PRIu64 " cache=%" PRIu64 " record=%" PRIu64 " dense=%" PRIu64
             " dense_locked=%s packed=%s read_by=\"%s\"",
             s->layout.expert_bytes, p->cache_bytes, s->layout.record_bytes_max, s->dense.used,
             s->dense.locked ? "yes" : "no", s->layout.packed ? "yes" : "no", expert_store_way(s->store));
    return s;
}

void streaming_close(struct streaming **ps)
{
    struct streaming *s = *ps;
    *ps = NULL;
    if (!s)
        return;
    expert_store_close(&s->store);
    owned_weights_fini(&s->dense);
    free(s->plan.layers);
    expert_layout_close(&s->layout);
    free(s);
}

const struct model_plan *streaming_plan(const struct streaming *s)
{
    return expert_store_plan(s->store);
}

struct expert_store *streaming_store(struct streaming *s)
{
    return s->store;
}

uint64_t streaming_locked(const struct streaming *s)
{
    return s->dense.locked ? s->dense.bytes : 0;
}

const struct expert_layout *streaming_layout(const struct streaming *s)
{
    return &s->layout;
}
