/* A short probe of how fast the device reads its own memory. */
#pragma once

#include <stdint.h>

#include "engine/base/err.h"

/* What a probe of the host's memory reads, at most: several times what the caches of devices hold
 * of it. */
#define DEVICE_BANDWIDTH_BUS_BYTES ((uint64_t)256 << 20)

struct backend;
struct gpu_buffer;

/* All three: bytes per second, the best of the passes over one buffer that `ns` nanoseconds have
 * room for; 0: failed. */
double device_bandwidth_read(struct backend *b, const struct gpu_buffer *from, uint64_t ns,
                             struct err *e);
/* Of the largest buffer of weights (a small model fits a cache, and says so by its figure). */
double device_bandwidth_of_weights(struct backend *b, uint64_t ns);
/* The same, measured once and then remembered. */
double device_bandwidth_of(struct backend *b);
