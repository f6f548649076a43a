/* Measures the disk, or takes a measurement of the same device that is less than a day old. */
#include "engine/memory/memory_rates.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/experts/disk_probe.h"
#include "engine/experts/io/rates_file.h"
#include "engine/experts/pack/expert_pack.h"

#define RATES_FILE "disk-rates"
#define SCRATCH_BYTES ((uint64_t)192 << 20)

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

static bool write_scratch(const char *path, uint64_t size, struct err *e)
{
    enum { PIECE = 1 << 20 };
    uint64_t *piece = malloc(PIECE), x = 0x9e3779b97f4a7c15u;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok = piece && fd >= 0;
    for (uint64_t at = 0; ok && at < size; at += PIECE) {
        for (size_t i = 0; i < PIECE / sizeof *piece; i++) /* which no disk makes smaller */
            piece[i] = x = x * 6364136223846793005u + 1442695040888963407u;
        ok = write(fd, piece, PIECE) == PIECE;
    }
    ok = ok && fsync(fd) == 0;
    if (!ok)
        err_errno(e, "%s", path);
    if (fd >= 0)
        close(fd);
    free(piece);
    return ok;
}

/* Moves each part of the layout into a file that is really there, at the same place modulo its
 * size. */
static bool lay_on_scratch(struct expert_layout *l, const char *path, struct err *e)
{
    if (!write_scratch(path, SCRATCH_BYTES, e))
        return false;
    l->files[0].path = path;
    l->n_files = 1;
    for (int32_t i = 0; i < l->n_layers; i++)
        for (int32_t k = 0; k < l->layers[i].n_expert; k++) {
            struct expert_record *r = &l->layers[i].records[k];
            for (int32_t n = 0; n < r->n_parts; n++) {
                struct expert_part *p = &r->parts[n];
                if (p->length >= SCRATCH_BYTES)
                    return err_set(e, ERR_LIMIT, "experts of this size are not measured");
                p->file = 0;
                p->offset %= SCRATCH_BYTES - p->length;
                p->offset -= p->offset % EXPERT_ALIGN;
            }
        }
    return expert_file_identify(&l->files[0], e);
}

static struct disk_speed probe_scratch(const struct model *m, const char *folder)
{
    struct expert_layout layout = {0};
    struct err ignored = {0};
    struct disk_speed speed = {0};
    char path[4096];
    if (!file_join(path, sizeof path, folder, "disk-probe", &ignored) ||
        !expert_layout_open(&layout, m, &ignored))
        return speed;
    if (lay_on_scratch(&layout, path, &ignored))
        speed = disk_probe(&layout, (uint64_t)clock_wall_ms(), &ignored);
    unlink(path);
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

struct disk_speed memory_disk_speed(const struct model *m, const char *cache_dir,
                                    const char *folder)
{
    struct stat st;
    const bool keeps = cache_dir && model_file(m, 0) && stat(model_file(m, 0), &st) == 0;
    struct disk_speed speed =
        keeps ? kept_speed(cache_dir, (uint64_t)st.st_dev) : (struct disk_speed){0};
    if (speed.bytes_per_s > 0)
        return speed;
    speed = folder ? probe_scratch(m, folder) : memory_disk_probe(m);
    if (keeps && speed.bytes_per_s > 0)
        keep_speed(cache_dir, (uint64_t)st.st_dev, speed);
    return speed;
}
