/* Copies of recurrent states at block boundaries, so that a prefix can be reused by models that have more than KV: the
 * state after block b belongs to that block, as long as the block's content is known. Which copies exist, and which one
 * goes when another is needed (the least recently used). The states themselves lie in the backend.
 * Owner: the engine's loop thread. */
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
/* A state to copy into, from now on this block's. -1: it has one already. */
int32_t checkpoints_take(struct checkpoints *c, int32_t block);
/* The block's copy, if it has one, is not needed or no longer true. */
void checkpoints_drop(struct checkpoints *c, int32_t block);
