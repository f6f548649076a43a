/* A short probe of how fast the device reads its own memory. */
#pragma once

struct backend;

/* Bytes per second, best of some passes over the largest buffer of weights (a small model fits a cache, and says so by
 * its figure); 0 when the probe failed. Measured once, then remembered. */
double bandwidth_of(struct backend *b);
