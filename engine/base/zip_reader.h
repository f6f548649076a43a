/* The entries of a ZIP archive, one after the other. zip_reader.c and zip_writer.c are the only
 * files that see libarchive.
 *
 * Nothing is unpacked but what the caller reads, and nothing is written to a disk under an entry's
 * name. What an archive says of itself (names, sizes) is a stranger's word: callers check names and
 * count bytes against their own limits. One thread per reader. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct zip_reader;

struct zip_reader_entry {
    const char *name; /* until the next entry; NULL: it has none */
    int64_t bytes;    /* unpacked, as the archive says */
    bool regular;     /* a file: neither a folder nor a link */
    bool encrypted;
};

/* The bytes must stay where they are until the reader is closed. ERR_INPUT: it is damaged. */
struct zip_reader *zip_reader_open_memory(const void *data, size_t len, struct err *e);
/* A regular file, read from its beginning; the descriptor stays the caller's. Nothing is asked of
 * it but reading and its size (lseek). */
struct zip_reader *zip_reader_open_fd(int fd, struct err *e);
int64_t zip_reader_at(const struct zip_reader *z); /* how far the file was read */
/* 1: an entry; 0: there are no more; -1: *e, ERR_INPUT. */
int zip_reader_next(struct zip_reader *z, struct zip_reader_entry *entry, struct err *e);
/* Bytes of the entry that were read; 0: it is at its end; -1: *e, ERR_FORMAT: it is damaged or
 * encrypted. */
int64_t zip_reader_read(struct zip_reader *z, void *to, size_t size, struct err *e);
void zip_reader_close(struct zip_reader **z); /* accepts a NULL pointer in *z, and nulls it */
