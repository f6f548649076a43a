/* The segment files of the prompt cache: a folder (0700) of files (0600) that records are appended
 * to. The space of a record that was forgotten is given back to the file system at once, by a hole
 * where it supports that, and with the file when that is empty. A file's number is the second in
 * which it was begun, or the next one: it is not used twice, also when the folder was emptied or
 * another one lay in its place, so that a place that is still known names nothing newer.
 *
 * The writer's thread owns it, except segments_open_file. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "engine/base/err.h"
#include "engine/wire/prompt_cache.h"

#define SEGMENTS_MAX_PARTS 64

struct segment {
    uint32_t number;
    uint32_t n_records; /* live ones; of an old segment: not known yet */
    uint64_t size;      /* of the file */
    uint64_t disk;      /* bytes that it takes on the disk, as far as we know */
    bool old;           /* was there at the start, and what lives in it was not said yet */
};

struct segments {
    int dir_fd, lock_fd;
    struct segment *list; /* [n] by number */
    int32_t n, cap;
    int write_fd;         /* of the last one; -1: the next append begins a segment */
    uint32_t last_number; /* ever begun in this folder, as far as is known */
    uint64_t disk_bytes;
    bool buffered; /* the file system refuses O_DIRECT */
    bool cannot_punch;
    uint64_t max_segment_bytes;
};

/* Makes the folder. ERR_CONFLICT: another engine uses it. */
bool segments_open(struct segments *s, const char *dir, struct err *e);
void segments_close(struct segments *s);
/* Any thread: a segment for reading, or -1 with errno. *direct: past the page cache. */
int segments_open_file(const struct segments *s, uint32_t number, bool *direct);
/* Appends the parts (at most SEGMENTS_MAX_PARTS, each one record) one behind the other, and says
 * where the first lies. All or nothing; not on disk before segments_sync. */
bool segments_append(struct segments *s, const struct iovec *parts, int n,
                     struct stored_place *first, struct err *e);
bool segments_sync(struct segments *s, struct err *e);
/* In the order of segments and offsets. */
void segments_sort(struct stored_place *places, int32_t n);
/* The records' space is given back; in order, so that those side by side are one hole. */
void segments_free(struct segments *s, const struct stored_place *places, int32_t n);
/* What lives in an old segment, by offset: everything else is given back. */
void segments_settle(struct segments *s, struct segment *segment, const struct stored_place *live,
                     int32_t n);
/* Of a folder that was opened to forget records in it: files without content go. */
void segments_drop_empty(struct segments *s);
struct segment *segments_find(struct segments *s, uint32_t number); /* NULL: none */
