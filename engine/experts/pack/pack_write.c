/* Writes a sidecar. Records are read by the parts of the model's own layout, repacked without
 * gaps and written in order. Data is synced before the table of checksums, so a checksum in the
 * file proves that its record is on disk. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/base/hash.h"
#include "engine/experts/pack/expert_pack.h"
#include "engine/experts/pack/pack_format.h"

#define SAFE_BYTES (256u << 20)

struct writer {
    const struct pack_params *params;
    struct expert_layout from, to; /* the model's own files; the sidecar */
    struct pack_header header;
    char path[4096], part[4104];
    int fd;            /* of part, locked */
    int *sources;      /* [from.n_files]; -1: not open */
    uint64_t *sums;    /* [n_records] */
    uint8_t *in, *out; /* a record as in the model's files; repacked */
    struct pack_progress progress;
    uint64_t unsafe; /* bytes written since the last checkpoint */
};

static bool stopped(const struct writer *w)
{
    return w->params->stop && *w->params->stop;
}

static bool write_at(const struct writer *w, const void *data, size_t len, uint64_t at,
                     struct err *e)
{
    for (size_t put = 0; put < len;) {
        ssize_t n = pwrite(w->fd, (const char *)data + put, len - put, (off_t)(at + put));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(e, "%s", w->part);
        put += (size_t)n;
    }
    return true;
}

static struct pack_file part_file(const struct writer *w)
{
    return (struct pack_file){.fd = w->fd, .path = w->part};
}

/* --- one record --- */

static bool open_source(struct writer *w, int32_t file, struct err *e)
{
    const char *path = w->from.files[file].path;
    if (w->sources[file] < 0)
        w->sources[file] = open(path, O_RDONLY | O_CLOEXEC);
    return w->sources[file] >= 0 || err_errno(e, "%s", path);
}

static bool read_record(struct writer *w, const struct expert_record *r, struct err *e)
{
    for (int i = 0; i < r->n_parts; i++) {
        const struct expert_part *p = &r->parts[i];
        const struct expert_file *f = &w->from.files[p->file];
        uint64_t left = f->size - p->offset;
        size_t want = left < p->length ? (size_t)left : p->length;
        if (!open_source(w, p->file, e))
            return false;
        const struct pack_file source = {.fd = w->sources[p->file], .path = f->path};
        ssize_t got = pack_file_read(&source, w->in + p->at, want, p->offset, e);
        if (got < 0)
            return false;
        if ((size_t)got < want)
            return err_set(e, ERR_CONFLICT, "%s was truncated while it was read", f->path);
        posix_fadvise(w->sources[p->file], (off_t)p->offset, (off_t)p->length, POSIX_FADV_DONTNEED);
    }
    return true;
}

struct row_source {    /* one plane of a matrix in the model's file */
    const uint8_t *at; /* NULL: the format has no such plane */
    size_t stride;
};

/* Packs rows: those of the sidecar have no gaps, so `size` is their stride as well. */
static void copy_rows(const uint8_t *to, const struct row_source *from, size_t size, int32_t rows)
{
    for (int32_t i = 0; from->at && i < rows; i++)
        memcpy((uint8_t *)to + (size_t)i * size, from->at + (size_t)i * from->stride, size);
}

static void planes_of(const struct expert_record *r, const uint8_t *memory,
                      struct weight_planes where[EXPERT_MATRIX__N])
{
    for (int i = 0; i < EXPERT_MATRIX__N; i++)
        where[i] = expert_record_planes(r, (enum expert_matrix)i, memory);
}

/* From w->in to w->out; returns the checksum of the result. */
static uint64_t repack(struct writer *w, const struct expert_layer *from,
                       const struct expert_layer *to, int32_t expert)
{
    struct weight_planes source[EXPERT_MATRIX__N], target[EXPERT_MATRIX__N];
    planes_of(&from->records[expert], w->in, source);
    planes_of(&to->records[expert], w->out, target);
    memset(w->out, 0, to->record_bytes);
    for (int i = 0; i < EXPERT_MATRIX__N; i++) {
        const struct weight *a = &from->weights[i], *b = &to->weights[i];
        const struct row_source data = {.at = source[i].data, .stride = a->row_bytes};
        const struct row_source scales = {.at = source[i].scales, .stride = a->scale_row_bytes};
        const struct row_source biases = {.at = source[i].biases, .stride = a->scale_row_bytes};
        copy_rows(target[i].data, &data, b->row_bytes, b->rows);
        copy_rows(target[i].scales, &scales, b->scale_row_bytes, b->rows);
        copy_rows(target[i].biases, &biases, b->scale_row_bytes, b->rows);
    }
    return expert_record_checksum(to->weights, target);
}

/* True if the record that an earlier run wrote is there and has this checksum. */
static bool is_written(struct writer *w, const struct expert_layer *to, int32_t expert,
                       uint64_t sum)
{
    const struct expert_part *p = &to->records[expert].parts[0];
    struct weight_planes where[EXPERT_MATRIX__N];
    const struct pack_file part = part_file(w);
    struct err ignored;
    if (!sum || pack_file_read(&part, w->out, p->length, p->offset, &ignored) != (ssize_t)p->length)
        return false;
    planes_of(&to->records[expert], w->out, where);
    return expert_record_checksum(to->weights, where) == sum;
}

/* --- the file --- */

static bool write_header(struct writer *w, struct err *e)
{
    pack_header_seal(&w->header);
    return write_at(w, &w->header, sizeof w->header, 0, e);
}

/* Syncs the data of records since the last checkpoint, then writes their checksums. */
static bool checkpoint(struct writer *w, struct err *e)
{
    size_t bytes = w->header.n_records * sizeof *w->sums;
    if (fdatasync(w->fd) != 0)
        return err_errno(e, "%s", w->part);
    posix_fadvise(w->fd, (off_t)w->header.data_offset, 0, POSIX_FADV_DONTNEED);
    w->unsafe = 0;
    return write_at(w, w->sums, bytes, EXPERT_ALIGN, e);
}

static bool write_record(struct writer *w, int32_t layer, int32_t expert, uint64_t *sum,
                         struct err *e)
{
    const struct expert_layer *from = &w->from.layers[layer], *to = &w->to.layers[layer];
    bool kept = is_written(w, to, expert, *sum);
    if (kept) {
        w->progress.records_kept++;
    } else {
        *sum = 0;
        if (!read_record(w, &from->records[expert], e))
            return err_prefix(e, "layer %d, expert %d", from->layer, expert);
        uint64_t made = repack(w, from, to, expert);
        if (!write_at(w, w->out, to->record_bytes, to->records[expert].parts[0].offset, e))
            return err_prefix(e, "layer %d, expert %d", from->layer, expert);
        *sum = made;
        w->unsafe += to->record_bytes;
    }
    w->progress.records++;
    w->progress.bytes += to->record_bytes;
    if (w->params->progress)
        w->params->progress(w->params->context, &w->progress);
    return true;
}

static bool write_records(struct writer *w, struct err *e)
{
    uint64_t at = 0, safe = w->params->safe_bytes ? w->params->safe_bytes : SAFE_BYTES;
    bool ok = true;
    for (int32_t i = 0; ok && i < w->to.n_layers; i++)
        for (int32_t x = 0; ok && x < w->to.layers[i].n_expert; x++) {
            if (stopped(w))
                ok = err_set(e, ERR_CANCELLED, "stopped; run it again to go on");
            ok = ok && write_record(w, i, x, &w->sums[at++], e);
            if (ok && w->unsafe >= safe)
                ok = checkpoint(w, e);
        }
    struct err why = {0};
    bool done =
        checkpoint(w, ok ? e : &why); /* after a failure too, so that the next run resumes here */
    return ok && done;
}

static void sync_folder(const char *path)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1,
             slash ? path : ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

static bool finish(struct writer *w, struct err *e)
{
    w->header.table_hash = hash64(w->sums, w->header.n_records * sizeof *w->sums, 0);
    if (!write_header(w, e))
        return false;
    if (fsync(w->fd) != 0)
        return err_errno(e, "%s", w->part);
    if (rename(w->part, w->path) != 0)
        return err_errno(e, "%s", w->path);
    sync_folder(w->path);
    return true;
}

/* --- beginning --- */

/* Reads the table of an earlier run; false: there is nothing to resume. */
static bool resume(struct writer *w)
{
    struct pack_header h;
    struct err ignored;
    const struct pack_file part = part_file(w);
    size_t bytes = w->header.n_records * sizeof *w->sums;
    return pack_file_read(&part, &h, sizeof h, 0, &ignored) == sizeof h &&
           pack_header_check(&h, &w->header, w->part, &ignored) &&
           pack_file_read(&part, w->sums, bytes, EXPERT_ALIGN, &ignored) == (ssize_t)bytes;
}

static bool check_room(struct writer *w, struct err *e)
{
    struct statvfs v;
    struct stat st;
    if (fstatvfs(w->fd, &v) != 0 || fstat(w->fd, &st) != 0)
        return err_errno(e, "%s", w->part);
    uint64_t has = (uint64_t)st.st_blocks * 512, free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
    uint64_t more = w->header.file_bytes > has ? w->header.file_bytes - has : 0;
    if (more > free_bytes)
        return err_set(e, ERR_LIMIT, "%s needs %.2f GB more, the disk has %.2f GB free", w->path,
                       (double)more / 1e9, (double)free_bytes / 1e9);
    return true;
}

/* Allocates all blocks now, where the file system can, so that the disk cannot fill up half-way. */
static bool reserve(struct writer *w, struct err *e)
{
    int failed;
    do
        failed = fallocate(w->fd, 0, 0, (off_t)w->header.file_bytes) != 0 ? errno : 0;
    while (failed == EINTR);
    if (!failed || failed == EOPNOTSUPP || failed == ENOSYS)
        return true;
    errno = failed;
    return err_errno(e, "%s: %.2f GB", w->part, (double)w->header.file_bytes / 1e9);
}

static bool begin_file(struct writer *w, struct err *e)
{
    memset(w->sums, 0, w->header.n_records * sizeof *w->sums);
    if (ftruncate(w->fd, 0) != 0)
        return err_errno(e, "%s", w->part);
    bool ok = check_room(w, e) && reserve(w, e) && write_header(w, e) &&
              write_at(w, w->sums, w->header.n_records * sizeof *w->sums, EXPERT_ALIGN, e);
    if (!ok)
        unlink(w->part); /* it holds nothing */
    return ok;
}

static bool lock_part(struct writer *w, struct err *e)
{
    w->fd = open(w->part, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (w->fd < 0)
        return err_errno(e, "%s", w->part);
    if (flock(w->fd, LOCK_EX | LOCK_NB) != 0)
        return err_set(e, ERR_BUSY, "%s: another pack is running", w->part);
    struct stat held, named; /* a pack that has just finished renamed the file */
    if (fstat(w->fd, &held) != 0 || stat(w->part, &named) != 0 || held.st_ino != named.st_ino)
        return err_set(e, ERR_BUSY, "%s: another pack has just finished", w->part);
    return true;
}

static bool allocate(struct writer *w, struct err *e)
{
    w->sums = calloc(w->header.n_records, sizeof *w->sums);
    w->sources = malloc((size_t)w->from.n_files * sizeof *w->sources);
    w->in = malloc(w->from.record_bytes_max);
    w->out = malloc(w->to.record_bytes_max);
    for (int32_t i = 0; w->sources && i < w->from.n_files; i++)
        w->sources[i] = -1;
    return (w->sums && w->sources && w->in && w->out) ||
           err_set(e, ERR_NOMEM, "no memory for packing");
}

static bool open_writer(struct writer *w, struct err *e)
{
    const struct pack_params *p = w->params;
    w->to.arena = arena_create(0);
    if (!w->to.arena)
        return err_set(e, ERR_NOMEM, "no memory for packing");
    if (!expert_layout_open(&w->from, p->model, e) || !pack_layout(&w->to, p->model, e))
        return false;
    w->header = pack_header_of(&w->to, p->model);
    w->progress.bytes_total = w->to.read_bytes;
    w->progress.records_total = w->header.n_records;
    snprintf(w->part, sizeof w->part, "%s.part", w->path);
    if (!allocate(w, e) || !lock_part(w, e))
        return false;
    return resume(w) ? check_room(w, e) : begin_file(w, e);
}

static void close_writer(struct writer *w)
{
    for (int32_t i = 0; w->sources && i < w->from.n_files; i++)
        if (w->sources[i] >= 0)
            close(w->sources[i]);
    if (w->fd >= 0)
        close(w->fd);
    free(w->sources);
    free(w->sums);
    free(w->in);
    free(w->out);
    expert_layout_close(&w->from);
    expert_layout_close(&w->to);
}

bool expert_pack_write(const struct pack_params *p, bool *there, struct err *e)
{
    struct writer w = {.params = p, .fd = -1};
    struct expert_layout whole;
    struct err ignored = {0};
    *there = false;
    if (!expert_pack_path(w.path, sizeof w.path, p->model, p->folder, e))
        return false;
    if (expert_pack_open(&whole, p->model, w.path, &ignored)) {
        expert_layout_close(&whole);
        *there = true;
        return true;
    }
    if (ignored.code == ERR_CONFLICT && p->folder) /* beside the model it is an old sidecar of this
                                                      model; elsewhere it may be another's */
        return err_set(e, ERR_CONFLICT, "%s: choose another folder or remove the file",
                       ignored.text);
    bool ok = open_writer(&w, e) && write_records(&w, e) && finish(&w, e);
    close_writer(&w);
    return ok;
}
