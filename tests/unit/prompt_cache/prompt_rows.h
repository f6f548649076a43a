/* A disk cache in a folder of its own, and what a recorder and a worker do about it: rows of stored
 * blocks by key, and the look-up of a prompt's. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/cache/disk/disk_cache.h"
#include "engine/sched/scheduler.h"

#define ROWS_MOST 1024
#define ROWS_IDENTITY 0x5eedu

struct prompt_rows {
    char dir[64];
    uint32_t block_bytes, state_bytes;
    struct record_feed *feed;
    struct disk_cache *cache;
    struct stored_ref rows[ROWS_MOST];
    int32_t n, stored, gone, forgotten, used; /* rows; events since the opening */
    uint64_t read;
    struct cache_event last; /* STORED */
};

void prompt_rows_init(struct prompt_rows *r, uint32_t block_bytes, uint32_t state_bytes);
void prompt_rows_fini(struct prompt_rows *r); /* and removes the folder */
void prompt_rows_reopen(struct prompt_rows *r);
/* Lets the scheduler store what it has to, then reads all events. */
void prompt_rows_settle(struct prompt_rows *r, struct scheduler *s);
void prompt_rows_read(struct prompt_rows *r);
/* The prompt's blocks from the first on, as long as there are rows; refs stay until the next call.
 */
void prompt_rows_name(struct prompt_rows *r, struct engine_job_params *p);
void prompt_rows_forget_all(struct prompt_rows *r);
/* Changes a byte of the block's content on disk. */
void prompt_rows_damage(const struct prompt_rows *r, const struct stored_ref *ref);
