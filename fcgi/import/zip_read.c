/* run.h: the entries of a ZIP archive, one after the other, by libarchive. Nothing is ever written to a disk under an
 * entry's name. Sizes that the archive states are not believed: what comes out is counted. */
#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fcgi/import/run.h"
#include "fcgi/import/zip_survey.h"

#define BLOCK 65536
#define RATIO_FREE ((int64_t)64 << 20) /* small archives may be packed as well as they like */

struct zip {
    struct archive *archive;
    struct import_run *run;
    int64_t unpacked;
    int64_t entry, stated; /* bytes of this entry: so far, and as the archive says */
};

static int64_t read_entry(void *context, void *to, size_t size, struct err *e)
{
    struct zip *z = context;
    la_ssize_t n = archive_read_data(z->archive, to, size);
    if (n < 0) {
        const char *why = archive_error_string(z->archive);
        return err_set(e, ERR_FORMAT, "this entry of the archive is damaged: %.120s", why ? why : "") - 1;
    }
    z->unpacked += n;
    z->entry += n;
    if (z->entry > z->stated)
        return err_set(e, ERR_FORMAT, "this entry of the archive is larger than the archive says") - 1;
    z->run->bytes = lseek(z->run->params->fd, 0, SEEK_CUR);
    if (z->unpacked > IMPORT_UNPACKED_BYTES)
        return err_set(e, ERR_LIMIT, "the archive is refused: it unpacks to more than %lld GB", (long long)(IMPORT_UNPACKED_BYTES >> 30)) - 1;
    if (z->unpacked > RATIO_FREE && z->unpacked / IMPORT_RATIO > z->run->total_bytes)
        return err_set(e, ERR_LIMIT, "the archive is refused: it unpacks to more than %d times its size", IMPORT_RATIO) - 1;
    return n;
}

static bool read_entries(struct zip *z, struct err *e)
{
    struct archive_entry *entry;
    int rc;
    while ((rc = archive_read_next_header(z->archive, &entry)) == ARCHIVE_OK || rc == ARCHIVE_WARN) {
        const char *name = archive_entry_pathname(entry);
        if (archive_entry_filetype(entry) != AE_IFREG)
            continue; /* folders; links were refused */
        z->entry = 0;
        z->stated = archive_entry_size(entry);
        if (!import_stream(z->run, read_entry, z, name ? name : "an entry without a name", e))
            return false;
    }
    const char *why = archive_error_string(z->archive);
    return rc == ARCHIVE_EOF || err_set(e, ERR_INPUT, "the archive is damaged: %.120s", why ? why : "it cannot be read on");
}

bool import_archive(struct import_run *x, struct err *e)
{
    if (!zip_survey(x->params->fd, x->total_bytes, IMPORT_ENTRIES, e))
        return false;
    struct zip z = {.archive = archive_read_new(), .run = x};
    if (!z.archive)
        return err_set(e, ERR_NOMEM, "memory ran out");
    lseek(x->params->fd, 0, SEEK_SET);
    bool ok = archive_read_support_format_zip_seekable(z.archive) == ARCHIVE_OK &&
              archive_read_open_fd(z.archive, x->params->fd, BLOCK) == ARCHIVE_OK;
    ok = ok ? read_entries(&z, e) : err_set(e, ERR_INPUT, "the archive is damaged: %.120s", archive_error_string(z.archive));
    archive_read_free(z.archive);
    return ok;
}
