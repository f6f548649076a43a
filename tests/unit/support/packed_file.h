/* Files of tests/data that lie there packed. Aborts on what it can't read: these are our own files.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/buf.h"

/* Where `path` lies, or a temporary file with what path.gz or path.xz holds. True: a temporary one,
 * to be unlinked. */
bool packed_file_place(const char *path, char *out, size_t size);
/* What it holds. */
struct buf packed_file_read(const char *path);
