/* Appends to segment files, and gives space back. */
#include "engine/cache/disk/segments.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#define LOG_MODULE "disk"
#include "engine/base/log.h"
#include "engine/cache/disk/record_form.h"

#define MAX_SEGMENT_BYTES ((uint64_t)512 << 20)
#define NAME_SIZE 32
#define BLANK_BYTES ((uint64_t)256 << 10)

static void name_of(uint32_t number, char name[NAME_SIZE])
{
    snprintf(name, NAME_SIZE, "%08x.kv", number);
}

/* True if the name is one that name_of makes. */
static bool number_of(const char *name, uint32_t *number)
{
    char again[NAME_SIZE];
    char *end;
    unsigned long v = strtoul(name, &end, 16);
    if (strcmp(end, ".kv") != 0 || v == 0 || v > UINT32_MAX)
        return false;
    *number = (uint32_t)v;
    name_of(*number, again);
    return strcmp(name, again) == 0;
}

struct segment *segments_find(struct segments *s, uint32_t number)
{
    for (int32_t i = s->n - 1; i >= 0; i--)
        if (s->list[i].number == number)
            return &s->list[i];
    return NULL;
}

static struct segment *add(struct segments *s, uint32_t number, struct err *e)
{
    if (s->n == s->cap) {
        int32_t cap = s->cap ? s->cap * 2 : 16;
        struct segment *list = realloc(s->list, (size_t)cap * sizeof *list);
        if (!list) {
            err_set(e, ERR_NOMEM, "no memory for a list of segments");
            return NULL;
        }
        s->list = list;
        s->cap = cap;
    }
    s->list[s->n] = (struct segment){.number = number};
    return &s->list[s->n++];
}

static int by_number(const void *a, const void *b)
{
    const struct segment *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* Files of other names are not ours and stay as they are. */
static bool list_files(struct segments *s, struct err *e)
{
    int fd = dup(s->dir_fd);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    bool ok = true;
    if (!d) {
        if (fd >= 0)
            close(fd);
        return err_errno(e, "prompt cache folder");
    }
    while (ok && (entry = readdir(d))) {
        uint32_t number;
        struct stat st;
        if (!number_of(entry->d_name, &number) ||
            fstatat(s->dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(st.st_mode))
            continue;
        struct segment *segment = add(s, number, e);
        ok = segment != NULL;
        if (!ok)
            break;
        segment->old = true;
        segment->size = (uint64_t)st.st_size;
        segment->disk = (uint64_t)st.st_blocks * 512;
        s->disk_bytes += segment->disk;
    }
    closedir(d);
    if (s->n)
        qsort(s->list, (size_t)s->n, sizeof *s->list, by_number);
    return ok;
}

bool segments_open(struct segments *s, const char *dir, struct err *e)
{
    *s = (struct segments){
        .dir_fd = -1, .lock_fd = -1, .write_fd = -1, .max_segment_bytes = MAX_SEGMENT_BYTES};
    if (!file_mkdirs(dir, 0700, e))
        return false;
    s->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->dir_fd < 0)
        return err_errno(e, "prompt cache folder");
    s->lock_fd = openat(s->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lock_fd < 0)
        return err_errno(e, "prompt cache folder");
    if (flock(s->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK
                   ? err_set(e, ERR_CONFLICT, "another engine uses the prompt cache's folder")
                   : err_errno(e, "prompt cache folder");
    if (pread(s->lock_fd, &s->last_number, sizeof s->last_number, 0) !=
        (ssize_t)sizeof s->last_number)
        s->last_number = 0; /* a new folder */
    return list_files(s, e);
}

void segments_close(struct segments *s)
{
    if (s->write_fd >= 0)
        close(s->write_fd);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    if (s->dir_fd >= 0)
        close(s->dir_fd);
    free(s->list);
    *s = (struct segments){.dir_fd = -1, .lock_fd = -1, .write_fd = -1};
}

static int open_file(const struct segments *s, uint32_t number, int flags, bool *direct)
{
    char name[NAME_SIZE];
    name_of(number, name);
    flags |= O_CLOEXEC | O_NOFOLLOW;
    int fd = openat(s->dir_fd, name, flags | O_DIRECT, 0600);
    *direct = fd >= 0;
    if (fd < 0 && errno == EINVAL) /* some file systems have no O_DIRECT */
        fd = openat(s->dir_fd, name, flags & ~O_EXCL, 0600);
    return fd;
}

int segments_open_file(const struct segments *s, uint32_t number, bool *direct)
{
    return open_file(s, number, O_RDONLY, direct);
}

static void remove_file(struct segments *s, struct segment *segment)
{
    char name[NAME_SIZE];
    name_of(segment->number, name);
    if (unlinkat(s->dir_fd, name, 0) != 0 && errno != ENOENT)
        return; /* it stays in the list, with what it takes */
    s->disk_bytes -= segment->disk;
    s->n--;
    memmove(segment, segment + 1, (size_t)(s->list + s->n - segment) * sizeof *segment);
}

static bool is_current(const struct segments *s, const struct segment *segment)
{
    return s->write_fd >= 0 && segment == &s->list[s->n - 1];
}

static void end_segment(struct segments *s)
{
    struct segment *last = &s->list[s->n - 1];
    close(s->write_fd);
    s->write_fd = -1;
    if (!last->n_records)
        remove_file(s, last);
}

/* The lock file holds the last number, so that it is known when its file is gone. */
static void note_last(const struct segments *s)
{
    if (pwrite(s->lock_fd, &s->last_number, sizeof s->last_number, 0) !=
        (ssize_t)sizeof s->last_number)
        log_debug("the last segment's number is not noted");
}

static bool begin_segment(struct segments *s, struct err *e)
{
    bool direct;
    const uint32_t now = (uint32_t)clock_wall_s();
    uint32_t number = s->n ? s->list[s->n - 1].number : 0;
    number = number < s->last_number ? s->last_number : number;
    number = number < now ? now : number + 1;
    if (!number)
        return err_set(e, ERR_LIMIT, "no number is left for a segment file");
    int fd = open_file(s, number, O_RDWR | O_CREAT | O_EXCL, &direct);
    if (fd < 0)
        return err_errno(e, "prompt cache segment");
    s->buffered = !direct;
    if (fsync(s->dir_fd) != 0) { /* else the file could be lost with all its records */
        err_errno(e, "prompt cache folder");
        close(fd);
        return false;
    }
    if (!add(s, number, e)) {
        close(fd);
        return false;
    }
    s->write_fd = fd;
    s->last_number = number;
    note_last(s);
    return true;
}

static bool write_parts(int fd, const struct iovec *parts, int n, uint64_t at, struct err *e)
{
    struct iovec left[SEGMENTS_MAX_PARTS];
    struct iovec *v = left;
    memcpy(left, parts, (size_t)n * sizeof *parts);
    while (n) {
        ssize_t wrote = pwritev(fd, v, n, (off_t)at);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0) {
            if (!wrote)
                errno = ENOSPC;
            return err_errno(e, "prompt cache segment");
        }
        at += (uint64_t)wrote;
        for (; n && (size_t)wrote >= v->iov_len; n--, v++)
            wrote -= (ssize_t)v->iov_len;
        if (n) {
            v->iov_base = (char *)v->iov_base + wrote;
            v->iov_len -= (size_t)wrote;
        }
    }
    return true;
}

bool segments_append(struct segments *s, const struct iovec *parts, int n,
                     struct stored_place *first, struct err *e)
{
    uint64_t bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += parts[i].iov_len;
    if (s->write_fd >= 0 && s->list[s->n - 1].size &&
        s->list[s->n - 1].size + bytes > s->max_segment_bytes) {
        if (!segments_sync(s, e))
            return false;
        end_segment(s);
    }
    if (s->write_fd < 0 && !begin_segment(s, e))
        return false;
    struct segment *last = &s->list[s->n - 1];
    if (!write_parts(s->write_fd, parts, n, last->size, e)) {
        /* What was written of it is no record; the next append goes over it in any case. */
        if (ftruncate(s->write_fd, (off_t)last->size) != 0)
            end_segment(s);
        return false;
    }
    *first = (struct stored_place){
        .segment = last->number, .bytes = (uint32_t)parts[0].iov_len, .offset = last->size};
    last->size += bytes;
    last->disk += bytes;
    last->n_records += (uint32_t)n;
    s->disk_bytes += bytes;
    return true;
}

bool segments_sync(struct segments *s, struct err *e)
{
    if (s->write_fd < 0)
        return true;
    if (fdatasync(s->write_fd) != 0)
        return err_errno(e, "prompt cache segment");
    if (s->buffered) /* what is read next comes from the disk, and the model's pages stay */
        posix_fadvise(s->write_fd, 0, 0, POSIX_FADV_DONTNEED);
    return true;
}

/* A hole, whose bytes the file system takes back. */
static bool punch(struct segments *s, struct segment *segment, int fd, uint64_t from, uint64_t to)
{
    if (s->cannot_punch)
        return false;
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
                  (off_t)(to - from)) != 0) {
        s->cannot_punch = errno == EOPNOTSUPP || errno == ENOSYS;
        return false;
    }
    uint64_t freed = to - from < segment->disk ? to - from : segment->disk;
    segment->disk -= freed;
    s->disk_bytes -= freed;
    return true;
}

static bool overwrite(int fd, const unsigned char *zeros, uint64_t from, uint64_t to)
{
    for (uint64_t n; from < to; from += n) {
        n = to - from < BLANK_BYTES ? to - from : BLANK_BYTES;
        if (pwrite(fd, zeros, n, (off_t)from) != (ssize_t)n)
            return false;
    }
    return true;
}

struct gap {
    uint64_t from, to;
    bool whole; /* all of it was records; else what lies there is not known */
};

/* Where there can be no hole, records are overwritten, the header last: what was forgotten is not
 * on the disk any more, and no record that somebody could count off again. Of a whole gap that
 * holds also where a header is damaged. */
static void blank(int fd, const struct gap *g)
{
    uint64_t from = g->from;
    unsigned char *header = aligned_alloc(RECORD_ALIGN, RECORD_ALIGN);
    unsigned char *zeros = aligned_alloc(RECORD_ALIGN, BLANK_BYTES);
    struct prompt_key key;
    if (zeros)
        memset(zeros, 0, BLANK_BYTES);
    for (uint32_t bytes; header && zeros && from < g->to; from += bytes) {
        const bool read = pread(fd, header, RECORD_ALIGN, (off_t)from) == (ssize_t)RECORD_ALIGN;
        if (!read && !g->whole)
            break;
        bytes = RECORD_ALIGN;
        const bool is_record = read && record_peek(header, &key, &bytes) && bytes <= g->to - from;
        if (!is_record)
            bytes = RECORD_ALIGN;
        if ((is_record || g->whole) && (!overwrite(fd, zeros, from + RECORD_ALIGN, from + bytes) ||
                                        !overwrite(fd, zeros, from, from + RECORD_ALIGN)))
            log_warn("a forgotten record of the prompt cache could not be overwritten");
    }
    free(header);
    free(zeros);
}

/* False: the space stays taken until the file is empty. */
static bool give_back(struct segments *s, struct segment *segment, const struct gap *g)
{
    bool direct, punched;
    if (g->from >= g->to)
        return true;
    int fd = open_file(s, segment->number, O_RDWR, &direct);
    if (fd < 0)
        return false;
    punched = punch(s, segment, fd, g->from, g->to);
    if (!punched)
        blank(fd, g);
    close(fd);
    return punched;
}

static int by_place(const void *a, const void *b)
{
    const struct stored_place *x = a, *y = b;
    if (x->segment != y->segment)
        return x->segment < y->segment ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

void segments_sort(struct stored_place *places, int32_t n)
{
    if (n)
        qsort(places, (size_t)n, sizeof *places, by_place);
}

static void free_in(struct segments *s, struct segment *segment, const struct stored_place *places,
                    int32_t n)
{
    if (!segment->old)
        segment->n_records -= (uint32_t)n < segment->n_records ? (uint32_t)n : segment->n_records;
    if (!segment->old && !segment->n_records && !is_current(s, segment)) {
        remove_file(s, segment);
        return;
    }
    for (int32_t i = 0, end; i < n; i = end) {
        uint64_t to = places[i].offset + places[i].bytes;
        for (end = i + 1; end < n && places[end].offset == to; end++)
            to += places[end].bytes;
        give_back(s, segment, &(struct gap){places[i].offset, to, .whole = true});
    }
}

void segments_free(struct segments *s, const struct stored_place *places, int32_t n)
{
    for (int32_t i = 0, end; i < n; i = end) {
        struct segment *segment = segments_find(s, places[i].segment);
        for (end = i + 1; end < n && places[end].segment == places[i].segment; end++)
            ;
        if (segment)
            free_in(s, segment, places + i, end - i);
    }
}

void segments_drop_empty(struct segments *s)
{
    for (int32_t i = s->n - 1; i >= 0; i--) {
        bool direct;
        const int fd = open_file(s, s->list[i].number, O_RDONLY, &direct);
        const bool empty = fd >= 0 && lseek(fd, 0, SEEK_DATA) < 0 && errno == ENXIO;
        if (fd >= 0)
            close(fd);
        if (empty)
            remove_file(s, &s->list[i]);
    }
}

void segments_settle(struct segments *s, struct segment *segment, const struct stored_place *live,
                     int32_t n)
{
    uint64_t at = 0, bytes = 0;
    segment->old = false;
    segment->n_records = (uint32_t)n;
    if (!n) {
        remove_file(s, segment);
        return;
    }
    bool punched = true;
    for (int32_t i = 0; i < n; i++) {
        punched = give_back(s, segment, &(struct gap){at, live[i].offset, false}) && punched;
        at = live[i].offset + live[i].bytes;
        bytes += live[i].bytes;
    }
    if (!give_back(s, segment, &(struct gap){at, segment->size, false}) || !punched)
        return;
    s->disk_bytes += bytes - segment->disk;
    segment->disk = bytes;
}
