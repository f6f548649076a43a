/* Random numbers by position instead of by state (Philox4x32-10, Salmon et al. 2011): the n-th
 * number of a seed is the same whatever was drawn before, so a job that is preempted and recomputed
 * draws the same tokens. */
#pragma once
#include <stdint.h>

/* In [0, 1), 53 bits. */
double random_uniform(uint64_t seed, uint64_t position);
/* The raw block, for tests against the published vectors. */
void random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
