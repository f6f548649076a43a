/* Experts of steps of so few rows that each row goes by itself, on the matrix units: other shaders
 * for the dispatches of record_mlp_up and record_mlp_down, with the same arguments. */
#pragma once
#include "engine/vulkan/ops/dispatch.h"

/* Turns a dispatch of moe_up, or of moe_down, into one of moe_up_units, or of moe_down_units, where
 * the device and the shape allow; else leaves it. */
void row_units_up(const struct recorder *r, const struct mlp_op *op, struct dispatch *d);
void row_units_down(const struct recorder *r, const struct mlp_op *op, struct dispatch *d);
