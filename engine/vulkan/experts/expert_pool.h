/* Experts that stay on disk, on the device's side of the store: a pool of records in host memory,
 * in the device's own layout, which shaders read over the bus. What a layer of a step wants and
 * neither slot (device_slots.h) nor pool holds is read through the store, unpacked into a record
 * and pointed at by the table, before the layer's experts run.
 *
 * A record that is replaced belongs to the expert that is worth least by the store's history; never
 * to one of the running layer. Memory that the store takes away is given back in whole chunks,
 * between steps. Owner: the backend; same thread. */
#pragma once
#include "engine/base/thread_pool.h"
#include "engine/experts/cache/expert_cache.h"
#include "engine/vulkan/device/gpu.h"
#include "engine/vulkan/weights/device_model.h"

struct device_slots;

struct expert_pool_links { /* what the pool works with; all outlive it */
    struct device_slots *slots;
    struct device_model *model;
    struct expert_cache *store;
};

struct expert_pool {
    uint64_t record;           /* bytes of one, the largest of all layers' */
    int32_t per_chunk;         /* records */
    int32_t n_planned;         /* records; 0: no experts are on disk */
    int32_t n_least;           /* as many as a step may want of one layer */
    int32_t n_records;         /* now: those of the chunks that are there */
    struct gpu_buffer *chunks; /* [n_chunks] */
    int32_t n_chunks;
    struct expert_id *holds; /* [n_planned] layer of the plan and expert; layer -1: nothing */
    int32_t *record_of;      /* [n_layer, n_expert] or -1 */
    int32_t n_layer, n_expert;
    struct expert_want *missing, *held; /* [n_expert] of the running layer */
    struct expert_pool_links with;
    struct thread_pool *workers; /* unpack */
    struct expert_device_resident counted;
};

/* Plans as many records as `bytes` make; no device is touched. ERR_LIMIT: they are fewer than a
 * step may need of one layer. */
bool expert_pool_plan(struct expert_pool *p, const struct device_model *m,
                      const struct model_plan *plan, uint64_t bytes, struct err *e);
uint64_t expert_pool_planned_bytes(const struct expert_pool *p);
uint64_t expert_pool_bytes(const struct expert_pool *p); /* as allocated now */
/* Called after the slots were opened. Reads the store's hottest experts at once, as far as there is
 * room. */
bool expert_pool_open(struct expert_pool *p, struct gpu *g, const struct expert_pool_links *links,
                      struct err *e);
void expert_pool_close(struct expert_pool *p,
                       struct gpu *g); /* accepts a zeroed struct; nothing is running */
/* Makes every expert of `used` (bits) reachable through the table. n_rows: of the step. ERR_IO: one
 * can't be read. */
bool expert_pool_bring(struct expert_pool *p, int32_t layer, const uint32_t *used, int32_t n_rows,
                       struct err *e);
/* Buffer and offset of an expert's record; false: the pool does not hold it. */
bool expert_pool_locate(const struct expert_pool *p, int32_t layer, int32_t expert,
                        VkBuffer *buffer, uint64_t *offset);
/* 0: the pool does not hold it. */
VkDeviceAddress expert_pool_address(const struct expert_pool *p, int32_t layer, int32_t expert);
/* Called between steps: grows or shrinks to as many chunks as the store allows now. */
void expert_pool_fit(struct expert_pool *p, struct gpu *g);
