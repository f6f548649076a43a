/* A ZIP file as it is written: entries one after the other, no size known before, zip64 where it is needed (libarchive).
 * Names of entries are ours: ASCII, relative, without "..". */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "fcgi/export/export.h"

struct zip;

struct zip *zip_create(struct export_sink sink, struct err *e);
/* Ends the entry before and begins one; time: Unix ms. stored: not compressed. */
bool zip_entry(struct zip *z, const char *name, int64_t time, bool stored, struct err *e);
bool zip_write(struct zip *z, const void *data, size_t len, struct err *e);
/* The directory at the end; without it the file is not whole. */
bool zip_finish(struct zip *z, struct err *e);
void zip_destroy(struct zip **z); /* accepts a NULL pointer in *z, and nulls it */
