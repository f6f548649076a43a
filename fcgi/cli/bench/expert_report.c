/* Counts the reads that a model's experts take from its own files and from a packed sidecar, and
 * prints both. */
#include "fcgi/cli/bench/expert_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/experts/pack/expert_pack.h"

static void count_own(struct expert_report *f, const struct expert_layout *l)
{
    f->bytes = l->expert_bytes;
    f->read_bytes = l->read_bytes;
    f->file_bytes = expert_pack_bytes(l, &f->record_bytes);
    for (int32_t i = 0; i < l->n_layers; i++)
        for (int32_t x = 0; x < l->layers[i].n_expert; x++, f->n++)
            f->reads += (uint64_t)l->layers[i].records[x].n_parts;
}

void expert_report_make(struct expert_report *f, const struct model *m, const char *folder)
{
    struct expert_layout l;
    *f = (struct expert_report){0};
    if (!expert_layout_open(&l, m, &f->why))
        return;
    count_own(f, &l);
    expert_layout_close(&l);
    if (!expert_pack_path(f->path, sizeof f->path, m, folder, &f->why)) {
        f->packed = PACKED_REFUSED;
    } else if (expert_pack_open(&l, m, f->path, &f->why)) {
        f->packed = PACKED_USED;
        expert_layout_close(&l);
    } else if (f->why.code != ERR_NOTFOUND) {
        f->packed = PACKED_REFUSED;
    }
}

static double mb_each(const struct expert_report *f, uint64_t bytes)
{
    return (double)bytes / (double)f->n / 1e6;
}

void expert_report_print(const struct expert_report *f)
{
    if (!f->n)
        return;
    printf("\nrouted experts on disk\n  %-22s  %" PRIu64 " of %.2f MB\n", "experts", f->n,
           mb_each(f, f->bytes));
    printf("  %-22s  each in %.1f places, %.2f MB to read\n", "in the model's files",
           (double)f->reads / (double)f->n, mb_each(f, f->read_bytes));
    if (f->packed == PACKED_USED) {
        printf("  %-22s  each in 1 place, %.2f MB to read; used: %s\n", "packed",
               mb_each(f, f->record_bytes), f->path);
        return;
    }
    if (f->packed == PACKED_REFUSED)
        printf("  %-22s  not used: %s\n", "packed", f->why.text);
    printf("  %-22s  each in 1 place, %.2f MB to read, in a file of %.2f GB\n", "by `sluice pack`",
           mb_each(f, f->record_bytes), (double)f->file_bytes / 1e9);
}

void expert_report_json(const struct expert_report *f, struct buf *b)
{
    static const char *const states[] = {"none", "refused", "used"};
    if (!f->n) {
        buf_puts(b, "null");
        return;
    }
    buf_printf(b,
               "{\"count\": %" PRIu64 ", \"bytes\": %" PRIu64
               ", \"reads_per_expert\": %.3f, \"read_bytes\": %" PRIu64
               ", \"packed\": {\"state\": \"%s\", \"reads_per_expert\": 1, \"read_bytes\": %" PRIu64
               ", \"file_bytes\": %" PRIu64 ", \"path\": ",
               f->n, f->bytes, (double)f->reads / (double)f->n, f->read_bytes, states[f->packed],
               f->record_bytes, f->file_bytes);
    buf_json_string(b, f->path, strlen(f->path));
    if (f->packed == PACKED_REFUSED) {
        buf_puts(b, ", \"reason\": ");
        buf_json_string(b, f->why.text, strlen(f->why.text));
    }
    buf_puts(b, "}}");
}
