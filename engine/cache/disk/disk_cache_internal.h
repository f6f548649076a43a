/* The state of the disk cache, shared by disk_cache.c (its life), disk_writer.c, disk_requests.c
 * (what the recorder asks for) and disk_reader.c. Private to these. */
#pragma once
#include <pthread.h>

#include "engine/cache/disk/disk_cache.h"
#include "engine/cache/disk/record_ram.h"
#include "engine/cache/disk/record_table.h"
#include "engine/cache/disk/segments.h"
#include "engine/cache/disk/staging.h"

#define DISK_READERS 2
#define DISK_LOCK_STEP_US 10000 /* between looks at a folder's lock that is taken */

struct disk_queued_write {
    struct disk_write write; /* what the loop thread sees */
    struct staging_buffer *buffer;
    struct disk_queued_write *next;
};

struct disk_activity { /* time with at least one under way */
    int32_t under_way;
    uint64_t since_ns, total_ns;
};

struct disk_cache {
    struct disk_cache_params params;
    char dir[4096], others[4096]; /* params.dir and params.others are not kept */
    struct segments segments;     /* the writer's thread; readers only open files */
    pthread_t writer, readers[DISK_READERS];
    int32_t n_readers;
    bool writer_runs;
    struct record_ram *ram; /* NULL: none */

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t to_write, to_read;
    bool pending;     /* the loop thread has more to hand over */
    bool stop, asked; /* asked: requests wait in the feed */
    bool reconciling;
    uint64_t settled_event; /* the last that the rows show which are being reconciled */
    /* [n_kept] records that have a newer one whose row was not acknowledged yet: the old row names
     * them, and a kill now would leave nothing else. */
    struct stored_ref *kept;
    int32_t n_kept, cap_kept;
    struct record_table table;
    struct disk_queued_write *oldest, *newest; /* handed over */
    uint64_t queued_bytes;                     /* begun, handed over or being written */
    int32_t writing;                           /* handed over and not ended */
    struct staging write_staging, read_staging;
    struct disk_load *loads; /* linked by next, oldest first */
    struct disk_activity reads, writes;
    uint64_t rate_bytes, rate_ns; /* of reads, lately */
    struct prompt_key *forgotten; /* [n_forgotten] not taken yet */
    int32_t n_forgotten, cap_forgotten;
    struct stored_place *lost; /* [n_lost] found damaged, to be freed */
    int32_t n_lost, cap_lost;
    double retry_ms; /* of clock_ms; until then nothing is stored. 0: it is */
    struct disk_counters counters;
};

void disk_activity_begin(struct disk_activity *a);
void disk_activity_end(struct disk_activity *a);
void disk_wake(struct disk_cache *c);
void disk_tell_busy(struct disk_cache *c); /* with the lock */
/* Without the lock. The record is not what its reference says: it is told, and forgotten. */
void disk_report_gone(struct disk_cache *c, const struct prompt_key *key,
                      const struct stored_place *place);

/* disk_writer.c */
void *disk_writer_run(void *cache);
/* disk_requests.c: the writer's thread, without the lock. */
void disk_requests_serve(struct disk_cache *c);
/* With the lock: while rows are reconciled, this record of an old segment is needed still. */
void disk_keep_old(struct disk_cache *c, const struct stored_ref *ref);
/* disk_reader.c */
void *disk_reader_run(void *cache);
/* Reads what begins at an offset; false with errno. Buffer, offset and length are aligned. */
bool disk_read(int fd, void *to, size_t bytes, uint64_t offset);
