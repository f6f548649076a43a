/* Appends one line per measurement and rewrites the file atomically, so that a crash never
 * leaves half a line. */
#include "engine/experts/io/rates_file.h"

#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"

#define KEPT_S (24 * 3600)
#define MAX_FILE 32768

bool rates_file_read(const char *cache_dir, const char *name, struct buf *b)
{
    char path[4096];
    struct err ignored;
    return cache_dir && file_join(path, sizeof path, cache_dir, name, &ignored) &&
           file_exists(path) && file_read(path, MAX_FILE, b, &ignored) && b->len > 0;
}

void rates_file_add(const char *cache_dir, const char *name, const char *line)
{
    char path[4096];
    struct buf b = {0};
    struct err ignored;
    if (!cache_dir || !file_join(path, sizeof path, cache_dir, name, &ignored))
        return;
    if (!rates_file_read(cache_dir, name, &b) || b.len + strlen(line) >= MAX_FILE)
        buf_clear(&b); /* also of what was read before it was found too long */
    if (buf_printf(&b, "%s\n", line))
        file_write_atomic(path, b.data, b.len, 0600, &ignored);
    buf_fini(&b);
}

bool rates_file_is_current(int64_t measured)
{
    const int64_t now = clock_wall_s();
    return measured <= now && now - measured < KEPT_S;
}
