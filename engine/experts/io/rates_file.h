/* Small files of the cache folder that keep measurements, one per line; the last one for a key
 * counts. Losing one only costs another measurement, so nothing here reports errors. Any thread; of
 * two processes that add a line at the same time, one may lose it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"

/* The file's lines into *b, which the caller zeroed and frees. False: there are none. cache_dir may
 * be NULL. */
bool rates_file_read(const char *cache_dir, const char *name, struct buf *b);
/* Adds a line, whole or not at all. A file that has grown too long starts over. */
void rates_file_add(const char *cache_dir, const char *name, const char *line);
/* True if a measurement of this time (Unix, seconds) is less than a day old. */
bool rates_file_is_current(int64_t measured);
