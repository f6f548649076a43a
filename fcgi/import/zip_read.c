/* Conversations and files out of a ZIP archive. Nothing is ever written to a disk under an entry's
 * name. Sizes that the archive states are not believed: what comes out is counted. */
#include <stdio.h>
#include <string.h>

#include "fcgi/import/import_internal.h"
#include "fcgi/import/zip_process.h"
#include "fcgi/import/zip_survey.h"
#include "sql/chats/store_import.h"
#include "sql/files/store_attachments.h"

#define BLOCK 65536
#define FILES "attachments/"
#define RATIO_FREE ((int64_t)64 << 20) /* small archives may be packed as well as they like */

struct unpacking {
    struct zip_process *zip;
    struct import_run *run;
    int64_t unpacked;
    int64_t entry, stated; /* bytes of this entry: so far, and as the archive says */
};

static int64_t read_entry(void *context, void *to, size_t size, struct err *e)
{
    struct unpacking *z = context;
    const int64_t n = zip_process_read(z->zip, to, size, e);
    if (n < 0)
        return n;
    z->unpacked += n;
    z->entry += n;
    if (z->entry > z->stated)
        return err_set(e, ERR_FORMAT, "this entry of the archive is larger than the archive says") -
               1;
    const int64_t at = zip_process_at(z->zip);
    z->run->bytes = at < 0 || at > z->run->total_bytes ? z->run->total_bytes : at;
    if (z->unpacked > IMPORT_UNPACKED_BYTES)
        return err_set(e, ERR_LIMIT, "the archive is refused: it unpacks to more than %lld GB",
                       (long long)(IMPORT_UNPACKED_BYTES >> 30)) -
               1;
    if (z->unpacked > RATIO_FREE && z->unpacked / IMPORT_RATIO > z->run->total_bytes)
        return err_set(e, ERR_LIMIT,
                       "the archive is refused: it unpacks to more than %d times its size",
                       IMPORT_RATIO) -
               1;
    return n;
}

/* 1: an entry; 0: there are no more; -1: *e. */
static int next_entry(struct unpacking *z, struct zip_process_entry *entry, struct err *e)
{
    const int rc = zip_process_next(z->zip, entry, e);
    if (rc == 1) {
        z->entry = 0;
        z->stated = entry->bytes;
    }
    return rc;
}

/* "attachments/SHA256" of an own archive: the hash; else NULL. Folders and links are none. */
static const char *file_hash(const struct zip_process_entry *entry)
{
    const char *name = entry->name;
    if (!name || !entry->regular || strncmp(name, FILES, strlen(FILES)) != 0)
        return NULL;
    name += strlen(FILES);
    return strspn(name, "0123456789abcdef") == 64 && !name[64] ? name : NULL;
}

/* False with e: the import ends; a file that is not what its name says, or not taken here, is a
 * problem of its own. */
static bool take_file(struct unpacking *z, const char *sha256, struct err *e)
{
    const struct import_params *p = z->run->params;
    struct store_upload u = {.fd = -1};
    struct err why = {0};
    char piece[BLOCK], item[DIGEST_TEXT_SIZE + sizeof FILES];
    struct digest hash;
    bool known, ok = store_import_file_known(p->store, p->user_id, sha256, &known, e);
    if (!ok || known)
        return ok;
    ok = z->stated <= p->max_file_bytes ||
         err_set(&why, ERR_INPUT, "this file is larger than %lld bytes",
                 (long long)p->max_file_bytes);
    ok = ok && store_upload_begin(p->store, &u, &why);
    int64_t n = 0;
    while (ok && (n = read_entry(z, piece, sizeof piece, &why)) > 0)
        ok = store_upload_write(&u, piece, (size_t)n, &why);
    if (ok && n == 0) {
        hash = u.digest;
        digest_end(&hash, item);
        ok = !strcmp(item, sha256)
                 ? p->take_file(p->context, &u, &why)
                 : err_set(&why, ERR_INPUT, "this file's content is not what its name says");
    }
    store_upload_drop(&u);
    snprintf(item, sizeof item, FILES "%s", sha256);
    if (why.code == ERR_INPUT || why.code == ERR_FORMAT || why.code == ERR_UNSUPPORTED)
        import_problem(z->run, item, &why);
    else if (why.code != ERR_NONE)
        return err_field(e, why.code, why.field, "%s", why.text);
    return true;
}

/* The first time through: files, so that the conversations find them. A dry run only learns which
 * there are. */
static bool read_files(struct unpacking *z, struct err *e)
{
    struct zip_process_entry entry;
    int rc;
    while ((rc = next_entry(z, &entry, e)) > 0) {
        const char *sha256 = file_hash(&entry);
        if (sha256 && z->run->params->dry_run)
            import_see(&z->run->files, sha256);
        else if (sha256 && !take_file(z, sha256, e))
            return false;
    }
    return rc == 0;
}

static bool read_conversations(struct unpacking *z, struct err *e)
{
    struct zip_process_entry entry;
    int rc;
    while ((rc = next_entry(z, &entry, e)) > 0) {
        const char *name = entry.name;
        if (!entry.regular || (z->run->params->take_file && file_hash(&entry)))
            continue; /* folders, and what was taken already; links were refused */
        if (!import_stream(z->run, read_entry, z, name ? name : "an entry without a name", e))
            return false;
    }
    return rc == 0;
}

static bool read_through(struct unpacking *z, bool (*read)(struct unpacking *z, struct err *e),
                         struct err *e)
{
    z->zip = zip_process_open(z->run->params->fd, e);
    const bool ok = z->zip && read(z, e);
    zip_process_close(&z->zip);
    return ok;
}

bool import_archive(struct import_run *x, struct err *e)
{
    struct unpacking z = {.run = x};
    return zip_survey(x->params->fd, x->total_bytes, IMPORT_ENTRIES, e) &&
           (!x->params->take_file || read_through(&z, read_files, e)) &&
           read_through(&z, read_conversations, e);
}
