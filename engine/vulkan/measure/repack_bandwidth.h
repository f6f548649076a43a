/* How fast experts that come from the disk are brought into the kernels' layout, by the threads
 * that do it: from memory that is in no cache into memory that the device reads, as in a cache of
 * experts (expert_pool.h). */
#pragma once
#include "engine/base/err.h"
#include "engine/model/plan.h"
#include "engine/vulkan/device/gpu.h"

/* Bytes of records (expert_layout.h) per second, over matrices like this layer's; nothing of the
 * weights themselves is read. 0: *e. Takes some 130 MB for the while. */
double repack_bandwidth(struct gpu *g, const struct moe_plan *m, struct err *e);
