/* The experts of one layer that have no slot on the device, computed by the processor while the
 * device computes the others. expert_cpu_offload.h decides whether a step does so. */
#pragma once
#include "engine/vulkan/ops/record.h"

/* Called after the router's choice: copies the layer's activations and choice to the host and waits
 * for them. True: some chosen experts are not resident in VRAM, and cpu_experts_add must follow. */
bool cpu_experts_begin(struct recorder *r, int layer);
/* Called after the resident experts were recorded: submits them, computes the others meanwhile, and
 * records the addition of their sum to the residual stream. */
void cpu_experts_add(struct recorder *r, int layer);
