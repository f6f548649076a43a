/* Opens, in this order, the layout of the expert records, a copy of the dense weights and the
 * expert cache, and closes them in reverse. */
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
    struct model_plan
        plan; /* the model's with the dense weights copied; that of the cache adds the experts */
    struct owned_weights dense;
    struct expert_cache *cache;
};

static bool own_dense(struct streaming *s, const struct model *m, bool keep, struct err *e)
{
    const struct model_plan *from = model_plan(m);
    size_t bytes = (size_t)from->n_layer * sizeof *from->layers;
    s->plan = *from;
    s->plan.layers = malloc(bytes);
    if (!s->plan.layers)
        return err_set(e, ERR_NOMEM, "no memory for %d layers", from->n_layer);
    memcpy(s->plan.layers, from->layers, bytes);
    return keep || owned_weights_init(&s->dense, &s->plan, m, e);
}

struct streaming *streaming_open(const struct model *m, const struct streaming_params *p,
                                 struct err *e)
{
    struct streaming *s = calloc(1, sizeof *s);
    if (!s) {
        err_set(e, ERR_NOMEM, "no memory to stream experts");
        return NULL;
    }
    if (!expert_layout_pick(&s->layout, m, p->pack_dir, e) ||
        !own_dense(s, m, p->device_share > 0, e)) {
        streaming_close(&s);
        return NULL;
    }
    s->cache = expert_cache_open(
        &(struct expert_cache_params){.layout = &s->layout,
                                      .plan = &s->plan,
                                      .budget = p->cache_bytes,
                                      .device_share = p->device_share,
                                      .depth = p->depth,
                                      .chunk = p->chunk,
                                      .state_dir = p->state_dir,
                                      .no_prefetch = p->no_prefetch || p->device_share,
                                      .no_uring = p->no_uring,
                                      .no_direct = p->no_direct},
        e);
    if (!s->cache) {
        streaming_close(&s);
        return NULL;
    }
    log_info("experts stay on disk: bytes=%" PRIu64 " cache=%" PRIu64 " record=%" PRIu64
             " dense=%" PRIu64 " dense_locked=%s packed=%s read_by=\"%s\"",
             s->layout.expert_bytes, p->cache_bytes, s->layout.record_bytes_max, s->dense.used,
             s->dense.locked ? "yes" : "no", s->layout.packed ? "yes" : "no",
             expert_cache_read_method(s->cache));
    return s;
}

void streaming_close(struct streaming **ps)
{
    struct streaming *s = *ps;
    *ps = NULL;
    if (!s)
        return;
    expert_cache_close(&s->cache);
    owned_weights_fini(&s->dense);
    free(s->plan.layers);
    expert_layout_close(&s->layout);
    free(s);
}

const struct model_plan *streaming_plan(const struct streaming *s)
{
    return expert_cache_plan(s->cache);
}

struct expert_cache *streaming_cache(struct streaming *s)
{
    return s->cache;
}

uint64_t streaming_locked(const struct streaming *s)
{
    return s->dense.locked ? s->dense.bytes : 0;
}

const struct expert_layout *streaming_layout(const struct streaming *s)
{
    return &s->layout;
}
