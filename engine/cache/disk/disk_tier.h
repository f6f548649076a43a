/* Opens the prompt cache on disk for the model that runs: where it lies, how much it may take, and
 * the identity of what it stores. A disk that cannot be used is no reason not to run: the caller
 * shows why. Owner: the engine's loop thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/backend/backend.h"
#include "engine/cache/disk/disk_cache.h"

#define DISK_TIER_OFF (-1)
#define DISK_TIER_AUTO 0 /* a tenth of what is free, with what it takes already */

/* Of the bytes that the backends make of a token: raised whenever those of the same model, device
 * and type become others (a sum in another order, another layout), so that no block is loaded that
 * an earlier build has stored. */
#define DISK_TIER_KV_VERSION 2

struct disk_tier_params {
    const char *dir;       /* NULL: "prompt-cache" in cache_dir */
    const char *cache_dir; /* NULL: there is none */
    int64_t bytes;         /* DISK_TIER_OFF, DISK_TIER_AUTO or a size */
    uint64_t ram_bytes;    /* of copies in RAM, beside it; 0: none */
    uint64_t weights;      /* a hash of the model: its numbers, tensors and their content */
    struct record_feed *feed;
    void (*wake)(void *context); /* as in disk_cache_params */
    void *wake_context;
};

struct disk_tier {
    struct disk_cache *cache; /* NULL: there is none */
    uint64_t identity;        /* of what it stores; 0: there is no cache */
};

/* "off", "auto" or a size as the other options take it; `option` is the field of errors. */
bool disk_tier_size(const char *option, const char *text, int64_t *bytes, struct err *e);
/* What copies in RAM may take, of `left`: what the memory plan leaves there. `wanted`: as
 * disk_tier_size gave it; auto is a quarter. False: not 0 is wanted and there is no use for it,
 * since the KV cache is in RAM itself (in_ram), or no room; *e says so. */
bool disk_tier_ram(int64_t wanted, bool in_ram, uint64_t left, uint64_t *bytes, struct err *e);
/* Opens it and lets the recorder follow. False: there is none, for a reason that the recorder is
 * told too; ERR_UNSUPPORTED: nobody asked for one. */
bool disk_tier_open(struct disk_tier *t, const struct disk_tier_params *p,
                    const struct backend_ops *ops, struct backend *backend, struct err *e);
void disk_tier_close(struct disk_tier *t);
