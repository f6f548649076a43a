/* Copies the attachments that a backup names, checks each by its hash, and rotates the backups of a
 * folder. */
#include "fcgi/cli/backup_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "sql/backup/store_copy.h"
#include "sql/core/digest.h"

#define HASH_LETTERS (DIGEST_TEXT_SIZE - 1)

struct copying {
    const char *source, *target;
    struct backup_files *out;
    struct err *e;
    bool failed;
};

static bool copy_bytes(int from, int to, char hash[DIGEST_TEXT_SIZE], struct err *e)
{
    static char piece[1 << 16];
    struct digest d;
    ssize_t n;
    digest_begin(&d);
    while ((n = read(from, piece, sizeof piece)) > 0) {
        digest_add(&d, piece, (size_t)n);
        for (ssize_t done = 0, w; done < n; done += w)
            if ((w = write(to, piece + done, (size_t)(n - done))) < 0)
                return err_errno(e, "writing an attachment");
    }
    digest_end(&d, hash);
    return (n == 0 && fsync(to) == 0) || err_errno(e, "copying an attachment");
}

/* The folder is made; the file gets its name when it is whole. */
static bool copy_to(int from, const char *path, const char *sha256, struct err *e)
{
    char folder[PATH_MAX], fresh[PATH_MAX], hash[DIGEST_TEXT_SIZE];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    if (snprintf(fresh, sizeof fresh, "%s.tmp", path) >= (int)sizeof fresh)
        return err_set(e, ERR_LIMIT, "the path is too long");
    if (!file_mkdirs(folder, 0700, e))
        return false;
    int to = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (to < 0)
        return err_errno(e, "%s", fresh);
    bool ok = copy_bytes(from, to, hash, e);
    if (close(to) && ok)
        ok = err_errno(e, "%s", fresh);
    if (ok && strcmp(hash, sha256) != 0)
        ok =
            err_set(e, ERR_FORMAT, "the attachment %s is damaged: its content is %s", sha256, hash);
    ok = ok && (rename(fresh, path) == 0 || err_errno(e, "%s", path));
    if (!ok)
        unlink(fresh);
    return ok;
}

static bool copy_one(void *context, const char *sha256, int64_t bytes)
{
    struct copying *c = context;
    char from[STORE_PATH_SIZE], to[STORE_PATH_SIZE];
    struct stat st;
    c->failed = true;
    c->out->named++;
    if (strspn(sha256, "0123456789abcdef") != HASH_LETTERS || sha256[HASH_LETTERS])
        return err_set(c->e, ERR_FORMAT, "an attachment has no SHA-256");
    if (!store_copy_file_path(c->source, sha256, from, c->e) ||
        !store_copy_file_path(c->target, sha256, to, c->e))
        return false;
    if (stat(to, &st) || st.st_size != bytes) {
        int fd = open(from, O_RDONLY | O_CLOEXEC);
        if (fd < 0 && errno != ENOENT)
            return err_errno(c->e, "%s", from);
        bool ok = fd < 0 || copy_to(fd, to, sha256, c->e);
        if (fd >= 0)
            close(fd);
        if (!ok)
            return false;
        c->out->missing += fd < 0;
        c->out->copied += fd >= 0;
        c->out->bytes += fd >= 0 ? bytes : 0;
    }
    c->failed = false;
    return true;
}

bool backup_files_copy(const char *named_by, const char *source, const char *target,
                       struct backup_files *out, struct err *e)
{
    struct copying c = {.source = source, .target = target, .out = out, .e = e};
    *out = (struct backup_files){0};
    return store_copy_files(named_by, copy_one, &c, e) && !c.failed;
}

void backup_name(int64_t now_ms, char out[BACKUP_NAME_SIZE])
{
    const time_t t = (time_t)(now_ms / 1000);
    struct tm tm = {0};
    gmtime_r(&t, &tm);
    strftime(out, BACKUP_NAME_SIZE, "sluice-%Y%m%d-%H%M%S.db", &tm);
}

static int is_backup(const struct dirent *d)
{
    static const char form[] = "sluice-########-######.db";
    if (strlen(d->d_name) != sizeof form - 1)
        return 0;
    for (size_t i = 0; i < sizeof form - 1; i++)
        if (form[i] == '#' ? d->d_name[i] < '0' || d->d_name[i] > '9' : d->d_name[i] != form[i])
            return 0;
    return 1;
}

/* Oldest first; the caller frees with free_names. < 0: *e. */
static int list_backups(const char *folder, struct dirent ***names, struct err *e)
{
    int n = scandir(folder, names, is_backup, alphasort);
    if (n < 0)
        err_errno(e, "%s", folder);
    return n;
}

static void free_names(struct dirent **names, int n)
{
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

bool backup_newest(const char *folder, char *out, unsigned long size, struct err *e)
{
    struct dirent **names = NULL;
    int n = list_backups(folder, &names, e);
    if (n < 0)
        return false;
    bool ok = n > 0 ? file_join(out, size, folder, names[n - 1]->d_name, e)
                    : err_set(e, ERR_NOTFOUND, "there is no backup in %s", folder);
    free_names(names, n);
    return ok;
}

/* --- which attachments the kept backups name: their hashes, sorted
 * ------------------------------------------------- */

struct names {
    char (*hash)[DIGEST_TEXT_SIZE];
    size_t n, room;
    bool failed;
};

static bool add_name(void *context, const char *sha256, int64_t bytes)
{
    struct names *k = context;
    if (k->n == k->room) {
        const size_t room = k->room ? k->room * 2 : 1024;
        void *more = realloc(k->hash, room * sizeof *k->hash);
        if (!more) {
            k->failed = true;
            return false;
        }
        k->hash = more;
        k->room = room;
    }
    snprintf(k->hash[k->n++], DIGEST_TEXT_SIZE, "%s", sha256);
    return true;
}

static int by_hash(const void *a, const void *b)
{
    return strcmp(a, b);
}

static bool sweep_folder(const char *folder, const struct names *kept, struct err *e)
{
    char path[PATH_MAX];
    DIR *d = opendir(folder);
    if (!d)
        return err_errno(e, "%s", folder);
    for (struct dirent *entry; (entry = readdir(d));) {
        const char *name = entry->d_name;
        if (name[0] == '.' ||
            (kept->n && bsearch(name, kept->hash, kept->n, sizeof *kept->hash, by_hash)))
            continue;
        if (file_join(path, sizeof path, folder, name, NULL))
            unlink(path); /* also what a killed backup left half written */
    }
    closedir(d);
    return true;
}

static bool sweep(const char *folder, const struct names *kept, struct err *e)
{
    char files[PATH_MAX], one[PATH_MAX];
    if (!file_join(files, sizeof files, folder, "attachments", e))
        return false;
    DIR *d = opendir(files);
    if (!d)
        return errno == ENOENT || err_errno(e, "%s", files);
    bool ok = true;
    for (struct dirent *entry; ok && (entry = readdir(d));)
        if (entry->d_name[0] != '.' && strlen(entry->d_name) == 2)
            ok = file_join(one, sizeof one, files, entry->d_name, e) && sweep_folder(one, kept, e);
    closedir(d);
    return ok;
}

bool backup_rotate(const char *folder, int64_t keep, int *removed, struct err *e)
{
    struct dirent **found = NULL;
    struct names kept = {0};
    char path[PATH_MAX];
    int n = list_backups(folder, &found, e);
    bool ok = n >= 0;
    *removed = 0;
    for (int i = 0; ok && i < n; i++) {
        ok = file_join(path, sizeof path, folder, found[i]->d_name, e);
        if (ok && i < n - keep) {
            ok = unlink(path) == 0 || err_errno(e, "%s", path);
            *removed += ok;
        } else if (ok) {
            /* One that can't be read stops the clearing away: nothing it may need is lost. */
            ok = store_copy_files(path, add_name, &kept, e) &&
                 (!kept.failed || err_set(e, ERR_NOMEM, "memory ran out"));
        }
    }
    if (ok && kept.n)
        qsort(kept.hash, kept.n, sizeof *kept.hash, by_hash);
    ok = ok && sweep(folder, &kept, e);
    free(kept.hash);
    if (n >= 0)
        free_names(found, n);
    return ok;
}
