/* The device's own memory for what lives as long as the model: weights, vectors, KV, states.
 *
 * Two passes: heap_plan notes how much each part needs and where its address shall be written;
 * heap_commit makes the fewest buffers that the device's limits allow and fills the parts through a
 * bounded ring of staging memory. A part never straddles buffers. Owner: the backend; same thread.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/vulkan/device/gpu.h"

#define HEAP_SOURCES 4

struct heap_part {
    uint64_t bytes;
    VkDeviceAddress *address; /* filled by heap_commit */
    /* Writes `n` rows from row `first` of source i to out; NULL: the part is cleared. Called by
     * several threads at once for different rows. */
    void (*fill)(const struct heap_part *p, int source, int64_t first, int64_t n, uint8_t *out);
    const void *sources[HEAP_SOURCES]; /* one below the other */
    const void *extra;
    int plane;
    int64_t rows[HEAP_SOURCES];
    uint32_t row_bytes;
    /* by heap_commit */
    int buffer;
    uint64_t offset;
};

struct heap {
    struct heap_part *parts;
    int n_parts, cap_parts;
    struct gpu_buffer *buffers;
    int n_buffers;
    uint64_t bytes; /* of all buffers */
};

bool heap_plan(struct heap *h, const struct heap_part *part, struct err *e);
uint64_t heap_planned_bytes(const struct heap *h);
/* where: GPU_LOCAL, or GPU_UPLOAD or GPU_SHARED for memory of the host that shaders reach over the
 * bus (filled without staging). */
bool heap_commit(struct heap *h, struct gpu *g, enum gpu_memory where, const char *name,
                 struct err *e);
/* Buffer and offset of an address inside the heap, for copies. */
bool heap_locate(const struct heap *h, VkDeviceAddress a, VkBuffer *buffer, uint64_t *offset);
/* Returns where the host sees an address; NULL: it is not in this heap, or in the device's own
 * memory. */
void *heap_map(const struct heap *h, VkDeviceAddress a);
void heap_fini(struct heap *h, struct gpu *g); /* accepts a zeroed struct */
