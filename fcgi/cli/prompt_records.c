/* prompt_records.h: rows first, then each file from its beginning to its end. */
#include "fcgi/cli/prompt_records.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/cache/disk/record_form.h"
#include "sql/prompts/store_prompt_cache.h"

#define BATCH 1024
#define NAME_SIZE 32

struct place { /* that a row names */
    uint32_t segment;
    uint64_t offset;
};

struct walk {
    struct prompt_records *out;
    prompt_records_fn fn;
    void *context;
    int dir, fd; /* fd: of the file that was used last; -1: none */
    uint32_t segment;
    unsigned char *record; /* [cap] */
    uint32_t cap;
    struct place *places; /* [n] of all rows, sorted before files are read */
    int64_t n, places_cap;
};

static bool open_segment(struct walk *w, uint32_t segment)
{
    char name[NAME_SIZE];
    if (w->fd >= 0 && w->segment == segment)
        return true;
    if (w->fd >= 0)
        close(w->fd);
    snprintf(name, sizeof name, "%08" PRIx32 ".kv", segment);
    w->fd = w->dir < 0 ? -1 : openat(w->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    w->segment = segment;
    return w->fd >= 0;
}

static bool make_room(struct walk *w, uint32_t bytes, struct err *e)
{
    if (bytes <= w->cap)
        return true;
    unsigned char *more = realloc(w->record, bytes);
    if (!more)
        return err_set(e, ERR_NOMEM, "no memory for a record of %" PRIu32 " bytes", bytes);
    w->record = more;
    w->cap = bytes;
    return true;
}

static bool note_place(struct walk *w, const struct store_block_place *p, struct err *e)
{
    if (w->n == w->places_cap) {
        const int64_t cap = w->places_cap ? w->places_cap * 2 : BATCH;
        struct place *more = realloc(w->places, (size_t)cap * sizeof *more);
        if (!more)
            return err_set(e, ERR_NOMEM, "no memory for the list of blocks");
        w->places = more;
        w->places_cap = cap;
    }
    w->places[w->n++] = (struct place){p->segment, p->offset};
    return true;
}

static bool check_row(struct walk *w, const struct store_block_ref *row, struct err *e)
{
    struct prompt_key key;
    const uint32_t bytes = row->place.bytes;
    memcpy(key.bytes, row->key, sizeof key.bytes);
    if (!note_place(w, &row->place, e) || !make_room(w, bytes, e))
        return false;
    const bool there = open_segment(w, row->place.segment) &&
                       pread(w->fd, w->record, bytes, (off_t)row->place.offset) == (ssize_t)bytes;
    const bool whole = there && record_whole(w->record, bytes, &key);
    w->out->rows++;
    w->out->whole += whole;
    w->out->missing += !there;
    w->out->damaged += there && !whole;
    if (!whole && w->fn)
        w->fn(w->context, row->place.segment, row->place.offset, there);
    return true;
}

static bool check_rows(struct walk *w, struct store *s, int64_t model_id, struct err *e)
{
    static struct store_block_ref rows[BATCH]; /* one thread */
    unsigned char last[STORE_PROMPT_KEY_BYTES];
    bool any = false;
    const struct store_block_page page = {.model_id = model_id, .refs = rows, .n = BATCH};
    int32_t n;
    while ((n = store_block_places(s, any ? last : NULL, &page, e)) > 0) {
        for (int32_t i = 0; i < n; i++)
            if (!check_row(w, &rows[i], e))
                return false;
        memcpy(last, rows[n - 1].key, sizeof last);
        any = true;
    }
    return n == 0;
}

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->segment != y->segment)
        return x->segment < y->segment ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Where the next bytes are that are no hole; -1: none. */
static off_t next_data(int fd, off_t at)
{
    const off_t data = lseek(fd, at, SEEK_DATA);
    return data < 0 ? -1 : data - data % RECORD_ALIGN;
}

static void find_unlisted(struct walk *w, uint32_t segment)
{
    unsigned char header[RECORD_HEADER_BYTES];
    if (!open_segment(w, segment))
        return;
    for (off_t at = 0; (at = next_data(w->fd, at)) >= 0;) {
        struct prompt_key key;
        uint32_t bytes;
        const struct place place = {segment, (uint64_t)at};
        if (pread(w->fd, header, sizeof header, at) != (ssize_t)sizeof header)
            return;
        if (!record_peek(header, &key, &bytes) || !bytes) {
            at += RECORD_ALIGN;
            continue;
        }
        if (!w->n || !bsearch(&place, w->places, (size_t)w->n, sizeof *w->places, by_place)) {
            w->out->unlisted++;
            w->out->unlisted_bytes += bytes;
        }
        at += bytes;
    }
}

/* `visit` may be NULL. */
static bool each_file(const char *folder, struct prompt_records *out,
                      void (*visit)(struct walk *w, uint32_t segment), struct walk *w,
                      struct err *e)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return errno == ENOENT || err_errno(e, "%s", folder);
    for (const struct dirent *d; (d = readdir(dir));) {
        struct stat st;
        char *end = NULL;
        const unsigned long number = strtoul(d->d_name, &end, 16);
        if (end == d->d_name || strcmp(end, ".kv") != 0 ||
            fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        out->files++;
        out->file_bytes += (int64_t)st.st_blocks * 512;
        if (visit)
            visit(w, (uint32_t)number);
    }
    closedir(dir);
    return true;
}

bool prompt_records_files(const char *folder, struct prompt_records *out, struct err *e)
{
    return each_file(folder, out, NULL, NULL, e);
}

bool prompt_records_verify(struct store *s, const struct prompt_folder *folder,
                           struct prompt_records *out, prompt_records_fn fn, void *context,
                           struct err *e)
{
    struct walk w = {.out = out, .fn = fn, .context = context, .fd = -1};
    w.dir = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w.dir < 0 && errno != ENOENT)
        return err_errno(e, "%s", folder->path);
    bool ok = check_rows(&w, s, folder->model_id, e);
    if (ok && w.n)
        qsort(w.places, (size_t)w.n, sizeof *w.places, by_place);
    ok = ok && each_file(folder->path, out, find_unlisted, &w, e);
    if (w.fd >= 0)
        close(w.fd);
    if (w.dir >= 0)
        close(w.dir);
    free(w.record);
    free(w.places);
    return ok;
}
