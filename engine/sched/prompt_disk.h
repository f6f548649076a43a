/* The scheduler's side of the prompt cache on disk: which blocks of a job are loaded in place of
 * being computed, and which are stored when it ends. The disk itself is engine/cache/disk; nothing
 * here waits for it.
 *
 * Storing takes no block away from anyone: a block that waits to be copied out stays idle in the
 * pool, and is stored only if it is still there when its turn comes. Owner: the loop thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/cache/disk/disk_cache.h"
#include "engine/sched/job.h"
#include "engine/wire/status.h"

struct scheduler;
struct prompt_disk;

/* The cache was opened with the backend's sizes and outlives this. */
struct prompt_disk *prompt_disk_create(struct disk_cache *cache, uint64_t identity,
                                       int32_t n_blocks, struct err *e);
void prompt_disk_destroy(struct prompt_disk **d);

/* All below do nothing where the scheduler has no disk cache. */
/* An admitted job, behind what the device has of its prompt: begins to load what follows, if that
 * is faster than computing it (the job is then JOB_LOADING). */
void prompt_disk_begin(struct scheduler *s, struct job *j);
/* Takes what has arrived; jobs whose load has ended go on to compute. */
void prompt_disk_poll(struct scheduler *s);
/* The job is leaving its blocks. */
void prompt_disk_cancel(struct job *j);
/* The job is over, and still has its blocks: those that are not on disk yet will be copied out. */
void prompt_disk_save(struct scheduler *s, struct job *j);
/* Copies some of them, a bounded number of bytes. */
void prompt_disk_copy(struct scheduler *s);
/* The block's content is being forgotten. */
void prompt_disk_drop(struct prompt_disk *d, int32_t block);
/* True if blocks wait to be copied out, or the cache has something to tell. */
bool prompt_disk_busy(const struct scheduler *s);
/* True if the last round brought nothing forward here. */
bool prompt_disk_waits(const struct scheduler *s);
void prompt_disk_publish(const struct scheduler *s, struct status_page *page);
