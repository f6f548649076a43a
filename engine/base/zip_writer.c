/* Writing ZIP archives by libarchive; an error of the receiver comes back as it was. */
#include "engine/base/zip_writer.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>

#define BLOCK (64 << 10)
#define LEVEL "2" /* texts: half the time of zlib's own choice, a tenth more bytes */

struct zip_writer {
    struct archive *archive;
    zip_writer_fn write;
    void *context;
    struct err failed; /* of `write` */
};

static bool failed(struct zip_writer *z, struct err *e)
{
    if (z->failed.code == ERR_NONE)
        return err_set(e, ERR_IO, "the archive could not be written: %s",
                       archive_error_string(z->archive));
    if (e)
        *e = z->failed;
    return false;
}

static la_ssize_t pass_on(struct archive *a, void *context, const void *data, size_t len)
{
    struct zip_writer *z = context;
    if (z->failed.code == ERR_NONE && z->write(z->context, data, len, &z->failed))
        return (la_ssize_t)len;
    archive_set_error(a, EPIPE, "the receiver has gone");
    return -1;
}

struct zip_writer *zip_writer_create(zip_writer_fn write, void *context, struct err *e)
{
    struct zip_writer *z = calloc(1, sizeof *z);
    if (z)
        z->archive = archive_write_new();
    if (!z || !z->archive) {
        err_set(e, ERR_NOMEM, "no memory for an archive");
        zip_writer_destroy(&z);
        return NULL;
    }
    z->write = write;
    z->context = context;
    if (archive_write_set_format_zip(z->archive) != ARCHIVE_OK ||
        archive_write_set_format_option(z->archive, "zip", "compression-level", LEVEL) !=
            ARCHIVE_OK ||
        archive_write_set_bytes_per_block(z->archive, BLOCK) != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(z->archive, 1) != ARCHIVE_OK ||
        archive_write_open2(z->archive, z, NULL, pass_on, NULL, NULL) != ARCHIVE_OK) {
        failed(z, e);
        zip_writer_destroy(&z);
    }
    return z;
}

bool zip_writer_entry(struct zip_writer *z, const char *name, int64_t time, bool stored,
                      struct err *e)
{
    struct archive_entry *entry = archive_entry_new();
    if (!entry)
        return err_set(e, ERR_NOMEM, "no memory for an archive");
    archive_entry_set_pathname(entry, name);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0600);
    archive_entry_set_mtime(entry, (time_t)(time / 1000), 0);
    bool ok = (stored ? archive_write_zip_set_compression_store(z->archive)
                      : archive_write_zip_set_compression_deflate(z->archive)) == ARCHIVE_OK &&
              archive_write_header(z->archive, entry) == ARCHIVE_OK;
    archive_entry_free(entry);
    return ok || failed(z, e);
}

bool zip_writer_write(struct zip_writer *z, const void *data, size_t len, struct err *e)
{
    return !len || archive_write_data(z->archive, data, len) == (la_ssize_t)len || failed(z, e);
}

bool zip_writer_finish(struct zip_writer *z, struct err *e)
{
    return archive_write_close(z->archive) == ARCHIVE_OK || failed(z, e);
}

void zip_writer_destroy(struct zip_writer **z)
{
    if (*z) {
        /* Nothing more is written: what is not finished stays in pieces. */
        (*z)->failed.code = (*z)->failed.code == ERR_NONE ? ERR_CANCELLED : (*z)->failed.code;
        if ((*z)->archive)
            archive_write_free((*z)->archive);
    }
    free(*z);
    *z = NULL;
}
