/* Records of experts in host memory: which expert has which, reading what is missing, growing and
 * shrinking. */
#include "engine/vulkan/experts/expert_pool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LOG_MODULE "vulkan"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/vulkan/experts/device_slots.h"

#define CHUNK_BYTES ((uint64_t)128 << 20) /* what is given back at a time */
#define LEAST_CHUNKS 16
#define RECORD_ALIGN 256
#define TAKEN 16 /* experts unpacked between two looks at the store */
#define SLICES 8 /* of an expert, unpacked by several threads */

/* --- where records are */

static uint8_t *record_memory(const struct expert_pool *p, int32_t record)
{
    return (uint8_t *)p->chunks[record / p->per_chunk].map +
           (uint64_t)(record % p->per_chunk) * p->record;
}

static int32_t *record_of(const struct expert_pool *p, int32_t layer, int32_t expert)
{
    return &p->record_of[(size_t)layer * (size_t)p->n_expert + (size_t)expert];
}

bool expert_pool_locate(const struct expert_pool *p, int32_t layer, int32_t expert,
                        VkBuffer *buffer, uint64_t *offset)
{
    int32_t record = *record_of(p, layer, expert);
    if (record < 0)
        return false;
    *buffer = p->chunks[record / p->per_chunk].buffer;
    *offset = (uint64_t)(record % p->per_chunk) * p->record;
    return true;
}

VkDeviceAddress expert_pool_address(const struct expert_pool *p, int32_t layer, int32_t expert)
{
    int32_t record = *record_of(p, layer, expert);
    return record < 0 ? 0
                      : p->chunks[record / p->per_chunk].address +
                            (uint64_t)(record % p->per_chunk) * p->record;
}

static void forget(struct expert_pool *p, int32_t record)
{
    struct expert_id *at = &p->holds[record];
    if (at->layer < 0)
        return;
    *record_of(p, at->layer, at->expert) = -1;
    at->layer = -1;
    p->counted.experts--;
    p->counted.bytes -= p->record;
    p->counted.evictions++;
}

/* A record for an expert of `layer`: a free one, or that of the expert that is worth least. There
 * is one, since the pool has as many as a layer may want. */
static int32_t acquire(struct expert_pool *p, int32_t layer, int32_t expert)
{
    int32_t record =
        (int32_t)
            p->counted.experts; /* records fill up in order, and whole chunks go from the end */
    if (record == p->n_records) {
        record = expert_cache_least_valuable(p->with.store, p->holds, p->n_records, layer);
        if (record < 0)
            return -1;
        forget(p, record);
    }
    p->holds[record] = (struct expert_id){layer, expert};
    *record_of(p, layer, expert) = record;
    p->counted.experts++;
    p->counted.bytes += p->record;
    return record;
}

/* --- bringing them */

struct unpacking { /* experts that came, each cut into slices of rows */
    const struct device_layer *layer;
    int32_t experts[TAKEN];
    uint8_t *to[TAKEN];
};

static void unpack(void *context, int share)
{
    const struct unpacking *u = context;
    const struct device_experts *x = &u->layer->split_experts;
    const struct weight *const parts[2][2] = {{x->gate, x->up}, {x->down, NULL}};
    const struct device_layout *layouts[2] = {&u->layer->mlp.gate_up.layout,
                                              &u->layer->mlp.down.layout};
    const int32_t expert = u->experts[share / SLICES], slice = share % SLICES;
    uint8_t *out = u->to[share / SLICES];
    for (int which = 0; which < 2; which++) {
        for (int plane = 0; plane < DEVICE_PLANES; plane++) {
            const uint32_t row_bytes = layouts[which]->row_bytes[plane];
            for (int i = 0; row_bytes && i < 2 && parts[which][i]; i++) {
                const int64_t rows = parts[which][i]->rows, from = rows * slice / SLICES,
                              to = rows * (slice + 1) / SLICES;
                device_layout_rows(parts[which][i], layouts[which],
                                   &(struct device_rows){.plane = plane,
                                                         .first = expert * rows + from,
                                                         .n = to - from},
                                   out + (uint64_t)from * row_bytes);
                out += (uint64_t)rows * row_bytes;
            }
        }
    }
}

/* Reads what is missing and unpacks it as it comes. */
static bool read_missing(struct expert_pool *p, int32_t layer, struct err *e)
{
    struct unpacking u = {.layer = &p->with.model->layers[layer]};
    int32_t n;
    while ((n = expert_cache_take(p->with.store, u.experts, TAKEN, true, e)) > 0) {
        for (int32_t i = 0; i < n; i++) {
            int32_t record = acquire(p, layer, u.experts[i]);
            if (record < 0)
                return err_set(e, ERR_INTERNAL, "no record for an expert among %d", p->n_records);
            u.to[i] = record_memory(p, record);
            device_slots_point(p->with.slots, &u.layer->split_experts, layer, u.experts[i],
                               expert_pool_address(p, layer, u.experts[i]));
        }
        thread_pool_each(p->workers, n * SLICES, unpack, &u);
        expert_cache_give(p->with.store, u.experts, n);
    }
    return n == 0;
}

bool expert_pool_bring(struct expert_pool *p, int32_t layer, const uint32_t *used, int32_t n_rows,
                       struct err *e)
{
    int32_t n_missing = 0, n_held = 0;
    for (int32_t i = 0; i < p->n_expert; i++) {
        if (used[i / 32] >> (i % 32) & 1) {
            bool here = device_slots_has(p->with.slots, layer, i) || *record_of(p, layer, i) >= 0;
            *(here ? &p->held[n_held++] : &p->missing[n_missing++]) =
                (struct expert_want){.expert = i, .rows = 1};
        }
    }
    expert_cache_begin(p->with.store,
                       &(struct expert_layer_request){
                           .layer = layer, .wants = p->missing, .n = n_missing, .rows = n_rows});
    expert_cache_count_device_hits(p->with.store, layer, p->held, n_held, n_rows);
    bool ok = n_missing == 0 || read_missing(p, layer, e);
    expert_cache_end(p->with.store);
    expert_cache_set_device_resident(p->with.store, &p->counted);
    return ok;
}

/* --- memory */

bool expert_pool_plan(struct expert_pool *p, const struct device_model *m,
                      const struct model_plan *plan, uint64_t bytes, struct err *e)
{
    *p =
        (struct expert_pool){.n_layer = plan->n_layer, .n_expert = device_model_most_experts(plan)};
    for (int i = 0; i < plan->n_layer; i++) {
        uint64_t one =
            plan->layers[i].ffn == FFN_MOE ? device_experts_record(&m->layers[i].split_experts) : 0;
        p->record = one > p->record ? one : p->record;
    }
    p->record = (p->record + RECORD_ALIGN - 1) / RECORD_ALIGN * RECORD_ALIGN;
    p->n_least = p->n_expert;
    uint64_t most = (uint64_t)plan->n_layer * (uint64_t)p->n_expert, n = bytes / p->record,
             chunk = CHUNK_BYTES / p->record;
    p->n_planned = (int32_t)(n < most ? n : most);
    chunk = chunk < n / LEAST_CHUNKS ? chunk : n / LEAST_CHUNKS;
    p->per_chunk = chunk ? (int32_t)chunk : 1;
    return p->n_planned >= p->n_least ||
           err_set(e, ERR_LIMIT,
                   "%" PRIu64
                   " bytes of host memory for experts; the %d of one layer take %" PRIu64,
                   bytes, p->n_least, (uint64_t)p->n_least * p->record);
}

uint64_t expert_pool_planned_bytes(const struct expert_pool *p)
{
    return (uint64_t)p->n_planned * p->record;
}

uint64_t expert_pool_bytes(const struct expert_pool *p)
{
    return (uint64_t)p->n_records * p->record;
}

static bool add_chunk(struct expert_pool *p, struct gpu *g, struct err *e)
{
    int32_t n =
        p->n_planned - p->n_records < p->per_chunk ? p->n_planned - p->n_records : p->per_chunk;
    if (!gpu_buffer_create(g,
                           &(struct gpu_buffer_params){.where = GPU_UPLOAD,
                                                       .size = (uint64_t)n * p->record,
                                                       .name = "experts in host memory"},
                           &p->chunks[p->n_chunks], e)) {
        return false;
    }
    memset(p->chunks[p->n_chunks].map, 0,
           (size_t)n * p->record); /* taken now, not when a step needs it */
    p->n_chunks++;
    p->n_records += n;
    return true;
}

static void drop_chunk(struct expert_pool *p, struct gpu *g)
{
    int32_t first = (p->n_chunks - 1) * p->per_chunk;
    for (int32_t i = first; i < p->n_records; i++)
        forget(p, i);
    gpu_buffer_destroy(g, &p->chunks[--p->n_chunks]);
    p->n_records = first;
}

void expert_pool_fit(struct expert_pool *p, struct gpu *g)
{
    uint64_t allowed = expert_cache_device_share(p->with.store);
    struct err ignored = {0};
    bool idle = false;
    while (expert_pool_bytes(p) > allowed && (p->n_chunks - 1) * p->per_chunk >= p->n_least) {
        idle = idle ||
               vkDeviceWaitIdle(g->device) == VK_SUCCESS; /* copies into slots may be under way */
        drop_chunk(p, g);
    }
    while (p->n_records < p->n_planned &&
           expert_pool_bytes(p) + (uint64_t)p->per_chunk * p->record <= allowed &&
           add_chunk(p, g, &ignored)) {
    }
    expert_cache_set_device_resident(p->with.store, &p->counted);
}

/* Layer by layer: each layer's hottest are one read of the store. */
static bool warm(struct expert_pool *p, struct err *e)
{
    struct expert_id *hot = calloc((size_t)p->n_records, sizeof *hot);
    uint64_t start = clock_ns();
    bool ok = hot || err_set(e, ERR_NOMEM, "no memory for a list of experts");
    int32_t n = ok ? expert_cache_hottest(p->with.store, hot, p->n_records) : 0;
    for (int32_t layer = 0; ok && n && layer < p->n_layer; layer++) {
        int32_t n_missing = 0;
        for (int32_t i = 0; i < n; i++)
            if (hot[i].layer == layer)
                p->missing[n_missing++] = (struct expert_want){.expert = hot[i].expert};
        if (n_missing) {
            expert_cache_begin(p->with.store, &(struct expert_layer_request){.layer = layer,
                                                                             .wants = p->missing,
                                                                             .n = n_missing});
            ok = read_missing(p, layer, e);
            expert_cache_end(p->with.store);
        }
    }
    if (n) {
        log_info("experts that earlier runs used most were read: n=%d ms=%.0f", n,
                 (double)(clock_ns() - start) * 1e-6);
    }
    free(hot);
    return ok;
}

bool expert_pool_open(struct expert_pool *p, struct gpu *g, const struct expert_pool_links *links,
                      struct err *e)
{
    const size_t experts = (size_t)p->n_layer * (size_t)p->n_expert;
    p->with = *links;
    if (!(p->workers = thread_pool_create_copiers(e)))
        return false;
    p->chunks = calloc((size_t)(p->n_planned / p->per_chunk + 1), sizeof *p->chunks);
    p->holds = calloc((size_t)p->n_planned, sizeof *p->holds);
    p->record_of = calloc(experts, sizeof *p->record_of);
    p->missing = calloc((size_t)p->n_expert, sizeof *p->missing);
    p->held = calloc((size_t)p->n_expert, sizeof *p->held);
    if (!p->chunks || !p->holds || !p->record_of || !p->missing || !p->held)
        return err_set(e, ERR_NOMEM, "no memory for the list of experts in host memory");
    for (int32_t i = 0; i < p->n_planned; i++)
        p->holds[i].layer = -1;
    memset(p->record_of, 0xff, experts * sizeof *p->record_of);
    while (p->n_records < p->n_planned)
        if (!add_chunk(p, g, e))
            return false;
    if (!warm(p, e))
        return false;
    expert_cache_count_warm(p->with.store);
    expert_cache_set_device_resident(p->with.store, &p->counted);
    return true;
}

void expert_pool_close(struct expert_pool *p, struct gpu *g)
{
    thread_pool_destroy(&p->workers);
    for (int32_t i = 0; i < p->n_chunks; i++)
        gpu_buffer_destroy(g, &p->chunks[i]);
    free(p->chunks);
    free(p->holds);
    free(p->record_of);
    free(p->missing);
    free(p->held);
    *p = (struct expert_pool){0};
}
