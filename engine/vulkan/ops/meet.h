/* Where a step stops for the host, and goes on: what was recorded runs, and recording begins anew. */
#pragma once
#include "engine/vulkan/ops/record.h"

/* What the device wrote is visible to the host once the timeline is reached. */
void meet_barrier(VkCommandBuffer c);
/* Runs what is recorded and waits for it. */
void meet_host(struct recorder *r);
/* After a step that failed: what it left under way still reads what the next step's host writes. */
void meet_give_up(struct recorder *r);
/* Brings the experts that the layer's router chose (expert_pool.h). */
void meet_pool(struct recorder *r, int layer);
/* After the layer's choice: hands the rows to the host. True: some chosen experts have no slot, and meet_sum follows. */
bool meet_rest(struct recorder *r, int layer);
/* After the layer's other experts were recorded: runs these, computes the rest meanwhile, and adds it. */
void meet_sum(struct recorder *r, int layer);
