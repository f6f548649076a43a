/* Measures how fast the disk delivers a model's expert records. */
#pragma once
#include <stdint.h>

#include "engine/experts/pack/expert_layout.h"

struct disk_speed {
    double bytes_per_s; /* 0: it could not be measured */
    int32_t depth;      /* reads in flight that reach it */
    double latency_s;   /* seconds of a single read beyond its bytes at that rate */
};

/* Measures random reads of records with the cache's own reader and kind of memory, while nothing
 * else runs. Several depths are tried for a quarter of a second each, and a larger one is chosen
 * where it gives 5 % more; then records are read one at a time with pauses in between. Uses up to
 * 64 MB of memory, or one record. */
struct disk_speed disk_probe(const struct expert_layout *l, uint64_t seed, struct err *e);
