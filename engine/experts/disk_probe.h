/* How fast the disk gives a model's expert records. */
#pragma once
#include <stdint.h>

#include "engine/experts/expert_layout.h"

/* Bytes/s at which records come that lie anywhere, many under way at once, into memory as the store's own: for half a second, by
 * the store's reader, with nothing else going on. Takes up to 64 MB, or one record. 0: it could not be measured, *e says why. */
double expert_disk_rate(const struct expert_layout *l, uint64_t seed, struct err *e);
