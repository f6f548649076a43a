/* Synchronisation with the host in the middle of a step: the commands recorded so far are submitted
 * and awaited, and recording continues in a new command buffer. */
#pragma once
#include "engine/vulkan/ops/record.h"

/* Makes what the device wrote visible to the host once the timeline is reached. */
void host_sync_barrier(VkCommandBuffer c);
/* Continues recording in a new command buffer. */
void host_sync_resume(struct recorder *r);
/* Submits what is recorded, waits for it, and resumes recording. */
void host_sync_wait(struct recorder *r);
/* After a failed step, waits for the command buffer still in flight: it may read host buffers that
 * the next step overwrites. */
void host_sync_abort(struct recorder *r);
/* Records a copy from the workspace to a buffer that the host reads. */
void host_sync_copy(struct recorder *r, VkDeviceAddress from, const struct gpu_buffer *to,
                    uint64_t at, uint64_t bytes);
/* Loads the experts that the layer's router chose into the pool (expert_pool.h). */
void host_sync_load_experts(struct recorder *r, int layer);
