/* The folder of attached files: uploads on their way in, files under their hashes, and the sweep
 * for strays. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "sql/core/statement.h"
#include "sql/files/attachments_internal.h"
#include "sql/files/store_attachments.h"

#define FOLDER "attachments"
#define UPLOADS FOLDER "/new"
#define UPLOAD_LEFT_S 3600 /* older ones were left behind by a killed process */
#define HASH_LETTERS (DIGEST_TEXT_SIZE - 1)

/* DATABASE'S FOLDER/name */
static bool beside(struct store *s, const char *name, char path[STORE_PATH_SIZE], struct err *e)
{
    const char *db = sqlite3_db_filename(s->db, "main");
    const char *slash = db ? strrchr(db, '/') : NULL;
    int n = snprintf(path, STORE_PATH_SIZE, "%.*s%s", slash ? (int)(slash - db) + 1 : 0,
                     db ? db : "", name);
    return (n > 0 && n < STORE_PATH_SIZE) ||
           err_set(e, ERR_LIMIT, "the path of the attachments is too long");
}

static bool sync_folder(const char *path, struct err *e)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, "the attachments' folder");
    bool ok = fsync(fd) == 0 || err_errno(e, "the attachments' folder");
    close(fd);
    return ok;
}

bool store_upload_begin(struct store *s, struct store_upload *u, struct err *e)
{
    char folder[STORE_PATH_SIZE];
    *u = (struct store_upload){.fd = -1};
    if (!beside(s, UPLOADS, folder, e) || !file_mkdirs(folder, 0700, e) ||
        !file_join(u->path, sizeof u->path, folder, "XXXXXX", e))
        return false;
    u->fd = mkostemp(u->path, O_CLOEXEC); /* 0600 */
    if (u->fd < 0)
        return err_errno(e, "the uploaded file");
    u->open = true;
    digest_begin(&u->digest);
    return true;
}

bool store_upload_write(struct store_upload *u, const void *data, size_t len, struct err *e)
{
    digest_add(&u->digest, data, len);
    for (size_t done = 0; done < len;) {
        ssize_t n = write(u->fd, (const char *)data + done, len - done);
        if (n < 0 && errno != EINTR)
            return err_errno(e, "the uploaded file can't be written");
        done += n > 0 ? (size_t)n : 0;
    }
    u->bytes += (int64_t)len;
    return true;
}

void store_upload_drop(struct store_upload *u)
{
    if (!u->open)
        return;
    close(u->fd);
    if (u->path[0])
        unlink(u->path);
    *u = (struct store_upload){.fd = -1};
}

bool store_attachment_path(struct store *s, const char *sha256, char path[STORE_PATH_SIZE],
                           struct err *e)
{
    char name[sizeof FOLDER + 4 + DIGEST_TEXT_SIZE];
    if (strspn(sha256, "0123456789abcdef") != HASH_LETTERS || sha256[HASH_LETTERS])
        return err_set(e, ERR_INTERNAL, "not a SHA-256");
    snprintf(name, sizeof name, FOLDER "/%.2s/%s", sha256, sha256);
    return beside(s, name, path, e);
}

static void folder_of(const char *path, char folder[STORE_PATH_SIZE])
{
    snprintf(folder, STORE_PATH_SIZE, "%s", path);
    *strrchr(folder, '/') = '\0';
}

static bool make_folder(struct store *s, const char *folder, struct err *e)
{
    char above[STORE_PATH_SIZE];
    if (mkdir(folder, 0700) == 0)
        return beside(s, FOLDER, above, e) && sync_folder(above, e);
    return errno == EEXIST || err_errno(e, "the attachments' folder");
}

bool attachment_file_prepare(struct store *s, struct store_upload *u, const char *sha256,
                             struct err *e)
{
    char path[STORE_PATH_SIZE], folder[STORE_PATH_SIZE];
    if (fsync(u->fd) != 0)
        return err_errno(e, "the uploaded file can't be written");
    if (!store_attachment_path(s, sha256, path, e))
        return false;
    folder_of(path, folder);
    if (!make_folder(s, folder, e))
        return false;
    /* One of the same content may be there. */
    if (link(u->path, path) != 0 && errno != EEXIST)
        return err_errno(e, "the uploaded file can't be kept");
    return sync_folder(folder, e);
}

bool attachment_file_place(struct store *s, struct store_upload *u, const char *sha256,
                           struct err *e)
{
    char path[STORE_PATH_SIZE], folder[STORE_PATH_SIZE];
    if (!store_attachment_path(s, sha256, path, e))
        return false;
    if (access(path, F_OK) == 0)
        return true;
    if (rename(u->path, path) != 0)
        return err_errno(e, "the uploaded file can't be kept");
    u->path[0] = '\0';
    folder_of(path, folder);
    return sync_folder(folder, e);
}

/* 1: a row names it; 0: none; -1: *e. */
static int known(struct store *s, const char *sha256, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_ATTACHMENT_KNOWN, e);
    if (!q)
        return -1;
    statement_bind_text(q, ":sha256", sha256);
    int rc = statement_step(s, q, e);
    statement_end(q);
    return rc;
}

static bool unlink_unknown(struct store *s, const char *sha256, struct err *e)
{
    char path[STORE_PATH_SIZE];
    int rc = known(s, sha256, e);
    if (rc)
        return rc == 1;
    return store_attachment_path(s, sha256, path, e) &&
           (unlink(path) == 0 || errno == ENOENT || err_errno(e, "an attachment can't be deleted"));
}

bool attachment_file_release(struct store *s, const char *sha256, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, unlink_unknown(s, sha256, e), e);
}

static void sweep_upload(const char *folder, const char *name)
{
    char path[STORE_PATH_SIZE];
    struct stat st;
    if (file_join(path, sizeof path, folder, name, NULL) && lstat(path, &st) == 0 &&
        S_ISREG(st.st_mode) && st.st_mtime < time(NULL) - UPLOAD_LEFT_S)
        unlink(path);
}

static bool sweep_file(struct store *s, const char *name, struct err *e)
{
    if (strspn(name, "0123456789abcdef") != HASH_LETTERS || name[HASH_LETTERS])
        return true; /* not ours */
    int rc = known(s, name, e);
    return rc == 1 || (rc == 0 && attachment_file_release(s, name, e));
}

bool store_attachment_sweep(struct store *s, int folder, struct err *e)
{
    char name[sizeof UPLOADS + 4], path[STORE_PATH_SIZE];
    const bool uploads = folder == STORE_FILE_FOLDERS - 1;
    if (uploads)
        snprintf(name, sizeof name, UPLOADS);
    else
        snprintf(name, sizeof name, FOLDER "/%02x", (unsigned)folder & 0xff);
    if (!beside(s, name, path, e))
        return false;
    DIR *d = opendir(path);
    if (!d)
        return errno == ENOENT || err_errno(e, "the attachments' folder");
    bool ok = true;
    for (struct dirent *entry; ok && (entry = readdir(d));) {
        if (entry->d_name[0] == '.')
            continue;
        if (uploads)
            sweep_upload(path, entry->d_name);
        else
            ok = sweep_file(s, entry->d_name, e);
    }
    closedir(d);
    return ok;
}
