/* Small files of the cache folder that keep what was measured: a line a measurement, the last one about a thing counts. To
 * lose one costs a measurement, so nothing here fails. Any thread; of two processes that add at once, one may win. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"

/* The file's lines into *b, which the caller zeroed and frees. False: there are none. cache_dir may be NULL. */
bool rates_file_read(const char *cache_dir, const char *name, struct buf *b);
/* Whole or not at all. A file that has grown long begins anew. */
void rates_file_add(const char *cache_dir, const char *name, const char *line);
/* What was measured at this time (Unix, seconds) still counts: for a day. */
bool rates_file_is_current(int64_t measured);
