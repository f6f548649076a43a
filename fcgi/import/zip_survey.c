/* Checks the list of entries of a ZIP archive without unpacking. Field offsets: PKWARE's
 * APPNOTE 6.3.9, 4.3.12 (central header), 4.3.14 to 4.3.16 (ends).
 *
 * The end record is looked for as libarchive does, in the last 16 KB and from behind, so that both
 * read the same list. */
#include "fcgi/import/zip_survey.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TAIL 16384
#define END_BYTES 22
#define END64_BYTES 56
#define LOCATOR_BYTES 20
#define HEADER_BYTES 46
#define NAME_BYTES 1024

struct list {
    int64_t at, bytes, n; /* as the end record says */
};

static uint64_t number(const unsigned char *p, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes - 1; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static bool read_at(int fd, int64_t at, void *to, size_t n)
{
    size_t got = 0;
    while (got < n) {
        ssize_t k = pread(fd, (char *)to + got, n - got, (off_t)(at + (int64_t)got));
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        got += (size_t)k;
    }
    return true;
}

static bool damaged(struct err *e)
{
    return err_set(e, ERR_INPUT, "the archive is damaged: its list of entries cannot be read");
}

/* ZIP64's end record, where a locator stands before the plain one. */
static bool read_end64(int fd, int64_t size, const unsigned char *locator, struct list *l,
                       struct err *e)
{
    unsigned char end[END64_BYTES];
    const uint64_t at = number(locator + 8, 8);
    if (size < END64_BYTES || at > (uint64_t)(size - END64_BYTES) ||
        !read_at(fd, (int64_t)at, end, sizeof end) || memcmp(end, "PK\6\6", 4) != 0)
        return damaged(e);
    const uint64_t n = number(end + 32, 8), bytes = number(end + 40, 8),
                   begin = number(end + 48, 8);
    if (begin > (uint64_t)size || bytes > (uint64_t)size - begin || n > (uint64_t)size)
        return damaged(e);
    *l = (struct list){(int64_t)begin, (int64_t)bytes, (int64_t)n};
    return true;
}

static bool find_list(int fd, int64_t size, struct list *l, struct err *e)
{
    unsigned char tail[TAIL];
    const int64_t n = size < TAIL ? size : TAIL;
    if (n < END_BYTES || !read_at(fd, size - n, tail, (size_t)n))
        return damaged(e);
    int64_t i = n - END_BYTES;
    while (i >= 0 && memcmp(tail + i, "PK\5\6", 4) != 0)
        i--;
    if (i < 0)
        return damaged(e);
    if (i >= LOCATOR_BYTES && !memcmp(tail + i - LOCATOR_BYTES, "PK\6\7", 4))
        return read_end64(fd, size, tail + i - LOCATOR_BYTES, l, e);
    *l = (struct list){(int64_t)number(tail + i + 16, 4), (int64_t)number(tail + i + 12, 4),
                       (int64_t)number(tail + i + 10, 2)};
    return l->at + l->bytes <= size || damaged(e);
}

static bool points_outside(const char *name)
{
    if (name[0] == '/' || name[0] == '\\' || (name[0] && name[1] == ':'))
        return true;
    for (const char *p = name; *p; p += strcspn(p, "/\\"), p += *p != '\0')
        if (!strncmp(p, "..", 2) && (!p[2] || p[2] == '/' || p[2] == '\\'))
            return true;
    return false;
}

static bool check_entry(const unsigned char *header, const char *name, size_t name_len,
                        struct err *e)
{
    const bool unix_made = header[5] == 3;
    const unsigned mode = (unsigned)number(header + 38, 4) >> 16;
    const char *what = number(header + 8, 2) & 0x41               ? "is encrypted"
                       : unix_made && (mode & 0170000) == 0120000 ? "is a link"
                       : strlen(name) != name_len || !name_len    ? "has no proper name"
                       : points_outside(name) ? "has a name that points outside the archive"
                                              : NULL;
    return !what ||
           err_set(e, ERR_INPUT, "the archive is refused: its entry '%.100s' %s", name, what);
}

bool zip_survey(int fd, int64_t size, int64_t max_entries, struct err *e)
{
    struct list l;
    unsigned char header[HEADER_BYTES];
    char name[NAME_BYTES + 1];
    int64_t n = 0;
    if (!find_list(fd, size, &l, e))
        return false;
    int64_t at = l.at, end = l.at + l.bytes;
    for (; at < end; n++) {
        if (n == max_entries)
            return err_set(e, ERR_INPUT, "the archive is refused: it has more than %lld entries",
                           (long long)max_entries);
        if (end - at < HEADER_BYTES || !read_at(fd, at, header, sizeof header) ||
            memcmp(header, "PK\1\2", 4) != 0)
            return damaged(e);
        const size_t name_len = (size_t)number(header + 28, 2);
        const int64_t all = HEADER_BYTES + (int64_t)name_len + (int64_t)number(header + 30, 2) +
                            (int64_t)number(header + 32, 2);
        if (name_len > NAME_BYTES || all > end - at ||
            !read_at(fd, at + HEADER_BYTES, name, name_len))
            return damaged(e);
        name[name_len] = '\0';
        if (!check_entry(header, name, name_len, e))
            return false;
        at += all;
    }
    /* libarchive reads on while headers follow: what stands behind the list must not be one. */
    if (read_at(fd, end, header, 4) && !memcmp(header, "PK\1\2", 4))
        return damaged(e);
    return n == l.n || damaged(e);
}
