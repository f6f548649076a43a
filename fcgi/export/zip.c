/* zip.h */
#include "fcgi/export/zip.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>

#define BLOCK (64 << 10)
#define LEVEL "2" /* texts: half the time of zlib's own choice, a tenth more bytes */

struct zip {
    struct archive *archive;
    struct export_sink sink;
    struct err failed; /* of the sink */
};

static bool zip_failed(struct zip *z, struct err *e)
{
    if (z->failed.code == ERR_NONE)
        return err_set(e, ERR_IO, "the archive could not be written: %s", archive_error_string(z->archive));
    if (e)
        *e = z->failed;
    return false;
}

static la_ssize_t pass_on(struct archive *a, void *context, const void *data, size_t len)
{
    struct zip *z = context;
    if (z->failed.code == ERR_NONE && z->sink.write(z->sink.context, data, len, &z->failed))
        return (la_ssize_t)len;
    archive_set_error(a, EPIPE, "the receiver has gone");
    return -1;
}

struct zip *zip_create(struct export_sink sink, struct err *e)
{
    struct zip *z = calloc(1, sizeof *z);
    if (z)
        z->archive = archive_write_new();
    if (!z || !z->archive) {
        err_set(e, ERR_NOMEM, "no memory for an archive");
        zip_destroy(&z);
        return NULL;
    }
    z->sink = sink;
    if (archive_write_set_format_zip(z->archive) != ARCHIVE_OK ||
        archive_write_set_format_option(z->archive, "zip", "compression-level", LEVEL) != ARCHIVE_OK ||
        archive_write_set_bytes_per_block(z->archive, BLOCK) != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(z->archive, 1) != ARCHIVE_OK ||
        archive_write_open2(z->archive, z, NULL, pass_on, NULL, NULL) != ARCHIVE_OK) {
        zip_failed(z, e);
        zip_destroy(&z);
    }
    return z;
}

bool zip_entry(struct zip *z, const char *name, int64_t time, bool stored, struct err *e)
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
    return ok || zip_failed(z, e);
}

bool zip_write(struct zip *z, const void *data, size_t len, struct err *e)
{
    return !len || archive_write_data(z->archive, data, len) == (la_ssize_t)len || zip_failed(z, e);
}

bool zip_finish(struct zip *z, struct err *e)
{
    return archive_write_close(z->archive) == ARCHIVE_OK || zip_failed(z, e);
}

void zip_destroy(struct zip **z)
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
