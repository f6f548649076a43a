/* Reading ZIP archives by libarchive, whose errors become ours. */
#include "engine/base/zip_reader.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BLOCK 65536

struct zip_reader {
    struct archive *archive;
    int fd; /* of a file: */
    int64_t at, size;
    char *block;
};

static bool damaged(struct zip_reader *z, struct err *e)
{
    const char *why = archive_error_string(z->archive);
    return err_set(e, ERR_INPUT, "the archive is damaged: %.120s",
                   why ? why : "it cannot be read on");
}

static struct zip_reader *create(struct err *e)
{
    struct zip_reader *z = calloc(1, sizeof *z);
    if (z && (z->archive = archive_read_new()))
        return z;
    free(z);
    err_set(e, ERR_NOMEM, "memory ran out");
    return NULL;
}

static struct zip_reader *opened(struct zip_reader *z, bool ok, struct err *e)
{
    if (!ok) {
        damaged(z, e);
        zip_reader_close(&z);
    }
    return z;
}

struct zip_reader *zip_reader_open_memory(const void *data, size_t len, struct err *e)
{
    struct zip_reader *z = create(e);
    return z ? opened(z,
                      archive_read_support_format_zip(z->archive) == ARCHIVE_OK &&
                          archive_read_open_memory(z->archive, data, len) == ARCHIVE_OK,
                      e)
             : NULL;
}

/* libarchive's own reading of a descriptor asks what it is, which a locked-in process may not. */
static la_ssize_t read_file(struct archive *a, void *context, const void **data)
{
    struct zip_reader *z = context;
    ssize_t n;
    do
        n = pread(z->fd, z->block, BLOCK, (off_t)z->at);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        archive_set_error(a, errno, "it can't be read");
    z->at += n > 0 ? n : 0;
    *data = z->block;
    return n < 0 ? ARCHIVE_FATAL : n;
}

static la_int64_t seek_file(struct archive *a, void *context, la_int64_t by, int whence)
{
    struct zip_reader *z = context;
    const int64_t from = whence == SEEK_CUR ? z->at : whence == SEEK_END ? z->size : 0;
    if (by < -from || by > z->size - from) {
        archive_set_error(a, EINVAL, "it points outside itself");
        return ARCHIVE_FATAL;
    }
    return z->at = from + by;
}

struct zip_reader *zip_reader_open_fd(int fd, struct err *e)
{
    struct zip_reader *z = create(e);
    if (!z)
        return NULL;
    z->fd = fd;
    z->size = (int64_t)lseek(fd, 0, SEEK_END);
    z->block = malloc(BLOCK);
    if (!z->block || z->size < 0) {
        err_set(e, ERR_NOMEM, "memory ran out");
        zip_reader_close(&z);
        return NULL;
    }
    return opened(z,
                  archive_read_support_format_zip_seekable(z->archive) == ARCHIVE_OK &&
                      archive_read_set_read_callback(z->archive, read_file) == ARCHIVE_OK &&
                      archive_read_set_seek_callback(z->archive, seek_file) == ARCHIVE_OK &&
                      archive_read_set_callback_data(z->archive, z) == ARCHIVE_OK &&
                      archive_read_open1(z->archive) == ARCHIVE_OK,
                  e);
}

int64_t zip_reader_at(const struct zip_reader *z)
{
    return z->at;
}

int zip_reader_next(struct zip_reader *z, struct zip_reader_entry *entry, struct err *e)
{
    struct archive_entry *header;
    const int rc = archive_read_next_header(z->archive, &header);
    if (rc == ARCHIVE_EOF)
        return 0;
    if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
        return damaged(z, e) - 1;
    *entry = (struct zip_reader_entry){
        .name = archive_entry_pathname(header),
        .bytes = archive_entry_size(header),
        .regular = archive_entry_filetype(header) == AE_IFREG,
        .encrypted = archive_entry_is_encrypted(header),
    };
    return 1;
}

int64_t zip_reader_read(struct zip_reader *z, void *to, size_t size, struct err *e)
{
    const la_ssize_t n = archive_read_data(z->archive, to, size);
    if (n >= 0)
        return n;
    const char *why = archive_error_string(z->archive);
    return err_set(e, ERR_FORMAT, "this entry of the archive is damaged: %.120s", why ? why : "") -
           1;
}

void zip_reader_close(struct zip_reader **z)
{
    if (*z) {
        archive_read_free((*z)->archive);
        free((*z)->block);
    }
    free(*z);
    *z = NULL;
}
