/* Reading ZIP archives by libarchive, whose errors become ours. */
#include "engine/base/zip_reader.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>
#include <unistd.h>

#define BLOCK 65536

struct zip_reader {
    struct archive *archive;
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

struct zip_reader *zip_reader_open_fd(int fd, struct err *e)
{
    struct zip_reader *z = create(e);
    if (!z)
        return NULL;
    lseek(fd, 0, SEEK_SET);
    return opened(z,
                  archive_read_support_format_zip_seekable(z->archive) == ARCHIVE_OK &&
                      archive_read_open_fd(z->archive, fd, BLOCK) == ARCHIVE_OK,
                  e);
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
    if (*z)
        archive_read_free((*z)->archive);
    free(*z);
    *z = NULL;
}
