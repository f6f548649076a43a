/* Converts planes as device_block.h has them back to GGUF's blocks, bit for bit: for the processor,
 * which computes experts that lie in the device's layout. Pure functions; any thread. */
#pragma once
#include "engine/vulkan/weights/device_block.h"

/* One row of n blocks; planes: its starts (one that the format lacks is not read). */
void block_decode_row(const struct device_block_format *f,
                      const uint8_t *const planes[BLOCK_PLANES], uint32_t n, uint8_t *out);
