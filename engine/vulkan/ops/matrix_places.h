/* Where a matrix of the units keeps its elements: Vulkan leaves it to the device which thread has
 * which. matmul_few, moe_few and attn_units fill the registers of the units themselves, in the
 * places that coop_registers.glsl says; this asks the device whether they are so. */
#pragma once
#include "engine/vulkan/device/gpu.h"

/* *known: the device has products of 16x8x16 halves with f32 sums, and their elements lie so.
 * Compiles and runs a small shader. False: the device failed. */
bool matrix_places_check(struct gpu *g, bool *known, struct err *e);
