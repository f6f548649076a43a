/* Whole-file helpers: map, read, write at once. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

struct file_map {
    const unsigned char *data; /* read-only, private; NULL for an empty file */
    size_t size;
};

/* Maps a regular file read-only. Close with file_unmap. */
bool file_map(const char *path, struct file_map *m, struct err *e);
void file_unmap(struct file_map *m); /* accepts a zeroed struct, leaves it zeroed */

/* Appends the file's bytes to b; ERR_LIMIT over `max` bytes. */
bool file_read(const char *path, size_t max, struct buf *b, struct err *e);
/* Reads a descriptor to its end (standard input). */
bool file_read_fd(int fd, size_t max, struct buf *b, struct err *e);
/* Replaces the file atomically: the data go to a file without a name in the same folder, which is
 * synced, linked under a temporary name and renamed, and the folder is synced. A kill leaves
 * nothing behind, except on file systems without nameless files. */
bool file_write_atomic(const char *path, const void *data, size_t len, unsigned mode,
                       struct err *e);
/* The same without waiting for the disk: for what is worth nothing after a crash of the machine,
 * written by a thread that others wait for. */
bool file_write_unsynced(const char *path, const void *data, size_t len, unsigned mode,
                         struct err *e);
/* Makes the file `size` bytes long, with its blocks: a mapped file that has holes is SIGBUS when
 * the disk is full. ERR_FULL. Its content stays. */
bool file_allocate(int fd, size_t size, struct err *e);
/* mkdir -p with mode for each new folder. */
bool file_mkdirs(const char *path, unsigned mode, struct err *e);
bool file_exists(const char *path);
/* The part behind the last slash, which may be shown to clients. Points into path. */
const char *file_base_name(const char *path);
bool file_is_dir(const char *path);
/* "dir/name" into out; ERR_LIMIT when it does not fit. */
bool file_join(char *out, size_t size, const char *dir, const char *name, struct err *e);
