/* What prompt_disk.c (its life, storing) and prompt_load.c (loading) share. Private to these. */
#pragma once
#include "engine/sched/prompt_disk.h"

/* Content that is moved between two steps, while others wait for the next one; and while none do.
 */
#define BYTES_PER_ROUND ((uint64_t)8 << 20)
#define BYTES_WHEN_ALONE ((uint64_t)128 << 20)

struct pending {   /* a block that is to be copied out */
    int32_t block; /* -1: its content has been forgotten since */
    struct record_about about;
    uint64_t user;
    struct prompt_seal seal;
    char owner[ENGINE_CACHE_OWNER_SIZE];
    int64_t keep_seconds, forgets_seen;
    struct pending *next;
};

struct block_note {        /* of each block of the pool */
    struct prompt_key key; /* of its content */
    bool has_key;
    struct pending *pending;
};

struct prompt_disk {
    struct disk_cache *cache;
    uint64_t identity;
    struct block_note *notes; /* [n_blocks] */
    int32_t n_blocks;
    struct pending *oldest, *newest;
    int32_t n_loading;
    uint64_t n_loaded;              /* blocks that jobs continued from in place of computing them */
    bool progress;                  /* something was moved in this round */
    uint64_t moved_bytes, moved_ns; /* from staging into the backend */
};

/* Bytes of a record. */
uint32_t prompt_disk_record(const struct scheduler *s, bool with_state);
