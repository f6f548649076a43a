/* Measured rates at which this machine reads weights, and the decode rate that follows for a plan.
 *
 * Rates are kept with their device and time in a small file of the cache folder, since a disk probe
 * takes about a second. One thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/backend/backend.h"
#include "engine/base/err.h"
#include "engine/experts/disk_probe.h"
#include "engine/memory/memory_plan.h"

struct memory_rates {           /* bytes per second; 0: unknown */
    struct backend_speed speed; /* of the plan's backend */
    struct disk_speed disk;
};

/* The share of the probe's rate that short reads between the layers of a step reach: the probe
 * reads without pauses on an otherwise idle machine. 0.72 to 0.98 in docs/speed/streaming.md. */
#define MEMORY_DISK_IN_STEPS 0.85

/* How far an estimate was off at most in nearly all cases of docs/speed/streaming.md, as a share of
 * it. */
#define MEMORY_ESTIMATE_OFF 0.25

struct memory_estimate {
    double tokens_per_s; /* one stream, decoding at `depth`; 0: unknown */
    double hit_rate; /* of the expert cache, or of the device's slots (hybrid), 0 to 1; 1 if all is
                        in one memory */
    double compute_s, disk_s; /* parts of a token's time; reads partly overlap with computing */
    struct disk_speed disk;   /* as measured; zeros where nothing is streamed */
};

/* The hit rate of a cache with this share of all experts, by routing traces of real models (128 to
 * 512 experts). Uniform routing would give the share itself. */
double memory_hit_rate(double share, int32_t n_expert);
/* depth: tokens already in KV. hit_rate < 0: use memory_hit_rate. */
struct memory_estimate memory_estimate_make(const struct memory_model *m,
                                            const struct memory_plan *p,
                                            const struct memory_rates *r, int32_t depth,
                                            double hit_rate);
/* Reads the model's files for about a second, bypassing the page cache (O_DIRECT). Zeros: it cannot
 * be measured there. */
struct disk_speed memory_disk_probe(const struct model *m);
/* The disk's speed: kept under cache_dir for a day (NULL: not kept), else probed. folder: where a
 * file is written and read instead of the model's own, which are holes; NULL: they are whole. */
struct disk_speed memory_disk_speed(const struct model *m, const char *cache_dir,
                                    const char *folder);
