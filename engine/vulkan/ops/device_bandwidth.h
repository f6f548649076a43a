/* A short probe of how fast the device reads its own memory. */
#pragma once

#include <stdint.h>

#include "engine/base/err.h"

/* A probe of the host's memory reads at most this: several times what the caches of devices hold
 * of it. */
#define DEVICE_BANDWIDTH_BUS_BYTES ((uint64_t)256 << 20)

struct backend;
struct gpu_buffer;

/* All three return bytes per second, 0 after a failure: the best of the passes over one buffer that
 * `ns` nanoseconds have room for. */
double device_bandwidth_read(struct backend *b, const struct gpu_buffer *from, uint64_t ns,
                             struct err *e);
/* Measures the largest buffer of weights. A small model fits a cache, so its figure is higher. */
double device_bandwidth_of_weights(struct backend *b, uint64_t ns);
/* Measures the same once and remembers it. */
double device_bandwidth_of(struct backend *b);
