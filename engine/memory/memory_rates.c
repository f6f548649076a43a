/* See memory_rates.h. */
#include "engine/memory/memory_rates.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/experts/disk_probe.h"
#include "engine/experts/expert_pack.h"

#define KEPT_S (24 * 3600)
#define RATES_FILE "disk-rates"
#define MAX_FILE 65536

struct disk_speed memory_disk_probe(const struct model *m)
{
    struct expert_layout layout = {0};
    struct err ignored = {0};
    struct disk_speed speed = {0};
    if (!expert_layout_pick(&layout, m, NULL, &ignored))
        return speed;
    speed = disk_probe(&layout, (uint64_t)clock_wall_ms(), &ignored);
    expert_layout_close(&layout);
    return speed;
}

/* Lines "device rate depth time"; the last of a device counts. */
static struct disk_speed kept_speed(const char *path, uint64_t device)
{
    struct buf b = {0};
    struct disk_speed kept = {0};
    char *rest = NULL;
    if (file_exists(path) && file_read(path, MAX_FILE, &b, NULL) && b.data)
        for (char *line = strtok_r(b.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
            uint64_t at;
            struct disk_speed one;
            int64_t when;
            if (sscanf(line, "%" SCNu64 " %lf %" SCNd32 " %" SCNd64, &at, &one.bytes_per_s, &one.depth, &when) == 4 && at == device &&
                one.bytes_per_s > 0 && one.depth > 0 && clock_wall_s() - when < KEPT_S && when <= clock_wall_s())
                kept = one;
        }
    buf_fini(&b);
    return kept;
}

static void keep_speed(const char *path, uint64_t device, struct disk_speed speed)
{
    struct buf b = {0};
    if (file_exists(path))
        file_read(path, MAX_FILE / 2, &b, NULL); /* too long: begun anew */
    buf_printf(&b, "%" PRIu64 " %.0f %" PRId32 " %" PRId64 "\n", device, speed.bytes_per_s, speed.depth, clock_wall_s());
    if (!b.failed)
        file_write_atomic(path, b.data, b.len, 0600, NULL); /* a cache: without it the next start measures again */
    buf_fini(&b);
}

struct disk_speed memory_disk_speed(const struct model *m, const char *cache_dir)
{
    struct stat st;
    char path[4096];
    bool keeps = cache_dir && model_file(m, 0) && stat(model_file(m, 0), &st) == 0 &&
                 file_join(path, sizeof path, cache_dir, RATES_FILE, NULL);
    struct disk_speed speed = keeps ? kept_speed(path, (uint64_t)st.st_dev) : (struct disk_speed){0};
    if (speed.bytes_per_s > 0)
        return speed;
    speed = memory_disk_probe(m);
    if (keeps && speed.bytes_per_s > 0)
        keep_speed(path, (uint64_t)st.st_dev, speed);
    return speed;
}
