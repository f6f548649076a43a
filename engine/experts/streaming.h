/* A model whose experts stay on disk: the door for whoever opens a model to run it. Its plan has the dense weights in
 * memory of our own (locked where the system allows it) and the experts in a cache; the files' mappings are not touched
 * by steps any more.
 *
 * Opened and closed by the owner of the backend: after model_open, before the backend is opened with streaming_plan()
 * and streaming_cache(); closed after the backend, before model_close. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/experts/cache/expert_cache.h"
#include "engine/model/model.h"

struct streaming;

struct streaming_params {
    uint64_t cache_bytes;  /* of experts in memory, at most; raised to the least that works */
    uint64_t device_share;      /* of cache_bytes: what a device's backend keeps itself (expert_cache.h); it takes the dense weights
                              as well, which then stay where the model has them */
    int32_t depth;         /* reads under way; 0: 16 */
    uint32_t chunk;        /* bytes of a read; 0: 4 MiB */
    const char *state_dir; /* NULL: nothing is kept */
    const char *pack_dir;  /* where a packed sidecar is looked for; NULL: beside the model */
    bool no_prefetch, no_uring, no_direct;
};

struct streaming *streaming_open(const struct model *m, const struct streaming_params *p, struct err *e);
void streaming_close(struct streaming **s);
const struct model_plan *streaming_plan(const struct streaming *s);
struct expert_cache *streaming_cache(struct streaming *s);
/* Bytes of dense weights that are locked in memory. */
uint64_t streaming_locked(const struct streaming *s);
const struct expert_layout *streaming_layout(const struct streaming *s);
