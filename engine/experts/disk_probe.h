/* How fast the disk gives a model's expert records. */
#pragma once
#include <stdint.h>

#include "engine/experts/pack/expert_layout.h"

struct disk_speed {
    double bytes_per_s; /* 0: it could not be measured */
    int32_t depth;      /* reads under way at once that give it */
    double latency_s;      /* seconds that a record which is asked for alone takes beyond its bytes at that rate */
};

/* The rate at which records come that lie anywhere, into memory as the cache's own, by the cache's reader, with nothing else
 * going on. Several depths are tried, each for a quarter of a second; a greater one is taken where it gives 5 % more; then
 * records one at a time with pauses between. Takes up to 64 MB, or one record. */
struct disk_speed disk_probe(const struct expert_layout *l, uint64_t seed, struct err *e);
