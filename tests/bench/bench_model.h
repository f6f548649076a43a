/* A random model for benchmarks: the shape is real, the weights mean nothing. */
#pragma once
#include <stdint.h>

#include "engine/model/plan.h"

/* Of Qwen3-30B-A3B's shape, with weights in a format of bench_vulkan's --format. All layers share
 * one copy, which is never freed. */
struct model_plan *bench_model_plan(const char *format, int32_t n_layer);
