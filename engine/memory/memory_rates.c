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

double memory_disk_probe(const struct model *m)
{
    struct expert_layout layout = {0};
    struct err ignored = {0};
    if (!expert_layout_pick(&layout, m, NULL, &ignored))
        return 0;
    double rate = expert_disk_rate(&layout, (uint64_t)clock_wall_ms(), &ignored);
    expert_layout_close(&layout);
    return rate;
}

/* Lines "device rate time"; the last of a device counts. */
static double kept_rate(const char *path, uint64_t device)
{
    struct buf b = {0};
    double rate = 0;
    if (file_exists(path) && file_read(path, MAX_FILE, &b, NULL) && b.data)
        for (char *line = b.data; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
            uint64_t at;
            double r;
            int64_t when;
            if (sscanf(line, "%" SCNu64 " %lf %" SCNd64, &at, &r, &when) == 3 && at == device && r > 0 &&
                clock_wall_s() - when < KEPT_S && when <= clock_wall_s())
                rate = r;
        }
    buf_fini(&b);
    return rate;
}

static void keep_rate(const char *path, uint64_t device, double rate)
{
    struct buf b = {0};
    if (file_exists(path))
        file_read(path, MAX_FILE / 2, &b, NULL); /* too long: begun anew */
    buf_printf(&b, "%" PRIu64 " %.0f %" PRId64 "\n", device, rate, clock_wall_s());
    if (!b.failed)
        file_write_atomic(path, b.data, b.len, 0600, NULL); /* a cache: without it the next start measures again */
    buf_fini(&b);
}

double memory_disk_rate(const struct model *m, const char *cache_dir)
{
    struct stat st;
    char path[4096];
    bool keeps = cache_dir && model_file(m, 0) && stat(model_file(m, 0), &st) == 0 &&
                 file_join(path, sizeof path, cache_dir, RATES_FILE, NULL);
    double rate = keeps ? kept_rate(path, (uint64_t)st.st_dev) : 0;
    if (rate > 0)
        return rate;
    rate = memory_disk_probe(m);
    if (keeps && rate > 0)
        keep_rate(path, (uint64_t)st.st_dev, rate);
    return rate;
}
