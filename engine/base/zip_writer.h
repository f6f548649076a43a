/* A ZIP archive as it is written: entries one after the other, no size known before, zip64 where it
 * is needed (libarchive). Names of entries are the caller's: ASCII, relative, without "..". One
 * thread per writer. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct zip_writer;

/* Takes the archive's bytes; false: *e, and nothing more is given to it. */
typedef bool (*zip_writer_fn)(void *context, const void *data, size_t len, struct err *e);

struct zip_writer *zip_writer_create(zip_writer_fn write, void *context, struct err *e);
/* Ends the entry before and begins one; time: Unix ms. stored: not compressed. */
bool zip_writer_entry(struct zip_writer *z, const char *name, int64_t time, bool stored,
                      struct err *e);
bool zip_writer_write(struct zip_writer *z, const void *data, size_t len, struct err *e);
/* The directory at the end; without it the file is not whole. */
bool zip_writer_finish(struct zip_writer *z, struct err *e);
void zip_writer_destroy(struct zip_writer **z); /* accepts a NULL pointer in *z, and nulls it */
