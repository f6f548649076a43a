/* A ZIP archive, unpacked by a process of its own that can reach nothing else (reader/unzip.h): the
 * library that does it stays out of the worker. What the process says is checked as if the archive
 * said it, names and sizes are the archive's own. One thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct zip_process;

struct zip_process_entry {
    const char *name; /* until the next entry; NULL: it has none */
    int64_t bytes;    /* unpacked, as the archive says */
    bool regular;     /* a file: neither a folder nor a link */
};

/* A regular file, read from its beginning; the descriptor stays the caller's, and how far it was
 * read there does not change. */
struct zip_process *zip_process_open(int fd, struct err *e);
/* The same over a socket at whose other end something else answers, for tests; taken over. */
struct zip_process *zip_process_attach(int socket, struct err *e);
/* 1: an entry; 0: there are no more; -1: *e, ERR_INPUT: it is damaged; ERR_LIMIT: it takes too
 * long.
 */
int zip_process_next(struct zip_process *z, struct zip_process_entry *entry, struct err *e);
/* Bytes of the entry that were read; 0: it is at its end; -1: *e, ERR_FORMAT: this entry is
 * damaged; else as zip_process_next. */
int64_t zip_process_read(struct zip_process *z, void *to, size_t size, struct err *e);
/* How far the archive has been read, by the process's word. */
int64_t zip_process_at(const struct zip_process *z);
void zip_process_close(struct zip_process **z);
