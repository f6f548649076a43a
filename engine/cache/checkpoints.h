/* Checkpoints: copies of recurrent states at block boundaries, so that models with recurrent layers
 * can reuse prefixes too. The state after block b belongs to that block as long as the block's
 * content is known. This module knows which copies exist and replaces the least recently used one.
 * The states themselves are in the backend. Owner: the engine's loop thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct checkpoints;

/* The backend's states first .. first + n - 1 are for copies; n >= 1. */
struct checkpoints *checkpoints_create(int32_t n_blocks, int32_t first, int32_t n, struct err *e);
void checkpoints_destroy(struct checkpoints **c);
/* The state saved after this block, or -1. */
int32_t checkpoints_find(struct checkpoints *c, int32_t block);
/* A state to copy into, which now belongs to this block. -1: the block has one already. */
int32_t checkpoints_take(struct checkpoints *c, int32_t block);
/* Drops the block's copy, if it has one. */
void checkpoints_drop(struct checkpoints *c, int32_t block);
