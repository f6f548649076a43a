/* Measures the disk, or takes a measurement of the same device that is less than a day old. */
#include "engine/memory/memory_rates.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/clock.h"
#include "engine/experts/disk_probe.h"
#include "engine/experts/io/rates_file.h"
#include "engine/experts/pack/expert_pack.h"

#define RATES_FILE "disk-rates"

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

/* Lines "device rate depth lead-time when". */
static struct disk_speed kept_speed(const char *cache_dir, uint64_t device)
{
    struct buf b = {0};
    struct disk_speed kept = {0};
    char *rest = NULL;
    if (rates_file_read(cache_dir, RATES_FILE, &b))
        for (char *line = strtok_r(b.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
            uint64_t at;
            struct disk_speed one;
            int64_t when;
            if (sscanf(line, "%" SCNu64 " %lf %" SCNd32 " %lf %" SCNd64, &at, &one.bytes_per_s,
                       &one.depth, &one.latency_s, &when) == 5 &&
                at == device && one.bytes_per_s > 0 && one.depth > 0 && one.latency_s >= 0 &&
                rates_file_is_current(when))
                kept = one;
        }
    buf_fini(&b);
    return kept;
}

static void keep_speed(const char *cache_dir, uint64_t device, struct disk_speed speed)
{
    char line[128];
    snprintf(line, sizeof line, "%" PRIu64 " %.0f %" PRId32 " %.6f %" PRId64, device,
             speed.bytes_per_s, speed.depth, speed.latency_s, clock_wall_s());
    rates_file_add(cache_dir, RATES_FILE, line);
}

struct disk_speed memory_disk_speed(const struct model *m, const char *cache_dir)
{
    struct stat st;
    const bool keeps = cache_dir && model_file(m, 0) && stat(model_file(m, 0), &st) == 0;
    struct disk_speed speed =
        keeps ? kept_speed(cache_dir, (uint64_t)st.st_dev) : (struct disk_speed){0};
    if (speed.bytes_per_s > 0)
        return speed;
    speed = memory_disk_probe(m);
    if (keeps && speed.bytes_per_s > 0)
        keep_speed(cache_dir, (uint64_t)st.st_dev, speed);
    return speed;
}
