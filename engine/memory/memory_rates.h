/* How fast this machine reads weights, measured; and what decode rate follows for a plan.
 *
 * Rates are kept in a small file of the cache folder with their device and time, since a disk probe takes about a second of
 * the disk. One thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/backend/backend.h"
#include "engine/base/err.h"
#include "engine/experts/disk_probe.h"
#include "engine/memory/memory_plan.h"

struct memory_rates { /* bytes per second; 0: unknown */
    struct backend_speed speed; /* of the plan's backend */
    struct disk_speed disk;
};

/* What reads of a few records between the layers of a step reach of the probe's rate, which knows no pauses and shares the
 * machine with nothing: 0.72 to 0.98 in docs/speed/streaming.md. */
#define MEMORY_DISK_IN_STEPS 0.85

struct memory_estimate {
    double tokens_per_s; /* one stream, decoding at `depth`; 0: unknown */
    double hit_rate;     /* of the expert cache, hybrid: of the device's slots, 0 to 1; 1 where all is in one memory */
    double compute_s, disk_s; /* parts of a token's time; reads overlap with computing in part */
    struct disk_speed disk;   /* as measured; zeros where nothing is streamed */
};

/* What part of a token's experts a cache with this share of all experts holds, by routing traces of real models
 * (128 to 512 experts). Independent uniform routing would give the share itself. */
double memory_hit_rate(double share, int32_t n_expert);
/* depth: tokens in KV before. hit_rate < 0: by memory_hit_rate. */
struct memory_estimate memory_estimate_make(const struct memory_model *m, const struct memory_plan *p,
                                            const struct memory_rates *r, int32_t depth, double hit_rate);
/* Reads the model's files around the page cache (O_DIRECT) for about a second. Zeros: it can't be measured there. */
struct disk_speed memory_disk_probe(const struct model *m);
/* The disk's speed: kept under cache_dir for a day (NULL: not kept), else probed. */
struct disk_speed memory_disk_speed(const struct model *m, const char *cache_dir);
