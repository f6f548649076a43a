/* A model whose experts stay on disk. Its plan has the dense weights in a copy (locked where the
 * system allows it) and the experts in a cache; steps no longer touch the mapped files.
 *
 * Opened and closed by the owner of the backend: after model_open, before the backend is opened
 * with streaming_plan() and streaming_cache(); closed after the backend, before model_close. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/experts/cache/expert_cache.h"
#include "engine/model/model.h"

struct streaming;

struct streaming_params {
    uint64_t cache_bytes; /* of experts in memory at most; raised to the smallest that works */
    uint64_t
        device_share; /* of cache_bytes: what a device keeps itself (expert_cache.h). The device
                         copies the dense weights as well, so no other copy of them is made */
    int32_t depth;    /* reads in flight; 0: 16 */
    uint32_t chunk;   /* bytes of a read; 0: 4 MiB */
    const char *state_dir; /* NULL: no use history is saved */
    const char *pack_dir;  /* where to look for a packed sidecar; NULL: beside the model */
    bool no_prefetch, no_uring, no_direct;
};

struct streaming *streaming_open(const struct model *m, const struct streaming_params *p,
                                 struct err *e);
void streaming_close(struct streaming **s);
const struct model_plan *streaming_plan(const struct streaming *s);
struct expert_cache *streaming_cache(struct streaming *s);
/* Bytes of dense weights that are locked in memory. */
uint64_t streaming_locked(const struct streaming *s);
const struct expert_layout *streaming_layout(const struct streaming *s);
