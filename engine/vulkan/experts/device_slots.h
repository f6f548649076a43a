/* Split experts (device_model.h): fills the slots, keeps the tables that shaders read, and
 * after each step brings in what is used often. Nothing waits for it inside a step: an expert
 * without a slot is read from host memory by the shaders themselves. Owner: the backend; same
 * thread. */
#pragma once
#include "engine/vulkan/experts/expert_pool.h"
#include "engine/vulkan/experts/slot_policy.h"
#include "engine/vulkan/weights/device_model.h"

#define SLOT_USED_WORDS 16 /* bits of experts of one layer: 512 */

struct device_slots {
    struct slot_policy policy;
    struct gpu_buffer table;
    uint64_t slots_only; /* entries before the second table (device_experts.table_slots); 0: there
                            is none */
    VkCommandBuffer copies; /* submitted and not yet freed, or none */
    uint64_t hits, misses;  /* distinct experts of steps, on the device and not */
    uint64_t bus_bytes;     /* read from host memory by shaders */
    uint64_t copied_bytes;  /* into slots */
    uint64_t evictions;     /* experts that such a copy took the place of */
};

/* Called after the heaps were committed. Slots begin with the first experts, or empty where host
 * memory has a pool. */
bool device_slots_open(struct device_slots *s, struct gpu *g, struct device_model *m,
                       const struct model_plan *plan, struct err *e);
void device_slots_close(struct device_slots *s,
                        struct gpu *g); /* accepts a zeroed struct; nothing is running */
struct device_slots_use {               /* a finished step */
    const struct model_plan *plan;
    const struct expert_pool
        *pool;            /* holds the experts that stay on disk; NULL: host memory holds all */
    const uint32_t *used; /* [n_layer, stride words] bits of the experts that the step used */
    int stride;
    int32_t n_rows;
    bool on_cpu; /* the processor computed the experts without a slot */
};

/* Submits copies into slots, after which the next submission is ordered; if that fails, the device
 * counts as lost (ERR_DEVICE). */
bool device_slots_step(struct device_slots *s, struct gpu *g, struct device_model *m,
                       const struct device_slots_use *u, struct err *e);
/* Points the table's entry of an expert at its record, which lies in one piece. */
void device_slots_point(struct device_slots *s, const struct device_experts *x, int32_t layer,
                        int32_t expert, VkDeviceAddress record);
bool device_slots_has(const struct device_slots *s, int32_t layer, int32_t expert);
/* Bytes of the tables. */
uint64_t device_slots_table_bytes(const struct device_model *m, const struct model_plan *plan);
