/* Maps, reads and replaces whole files. A replacement is written to a file without a name, synced
 * and then linked, so that a kill leaves either the old file or the new one and nothing else. */
#include "engine/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Maps with small pages cost passes through a model's weights a fifth: the processor waits for
 * translations. The kernel reads the file into huge pages where its file system has them, and
 * refuses elsewhere. */
#define HUGE_FROM_BYTES ((size_t)64 << 20)

bool file_map(const char *path, struct file_map *m, struct err *e)
{
    *m = (struct file_map){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, "%s", path);
    struct stat st;
    bool ok = false;
    if (fstat(fd, &st) != 0) {
        err_errno(e, "%s", path);
    } else if (!S_ISREG(st.st_mode)) {
        err_set(e, ERR_FORMAT, "%s: not a regular file", path);
    } else if (st.st_size == 0) {
        ok = true;
    } else {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        ok = p != MAP_FAILED || err_errno(e, "%s: mmap", path);
        if (ok)
            *m = (struct file_map){.data = p, .size = (size_t)st.st_size};
        if (ok && m->size >= HUGE_FROM_BYTES)
            madvise(p, m->size, MADV_HUGEPAGE);
    }
    close(fd);
    return ok;
}

void file_unmap(struct file_map *m)
{
    if (m->data)
        munmap((void *)m->data, m->size);
    *m = (struct file_map){0};
}

bool file_read_fd(int fd, size_t max, struct buf *b, struct err *e)
{
    size_t start = b->len;
    for (;;) {
        if (!buf_reserve(b, 65536))
            return err_set(e, ERR_NOMEM, "out of memory while reading");
        ssize_t n = read(fd, b->data + b->len, 65536);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(e, "read");
        b->len += (size_t)n;
        b->data[b->len] = '\0';
        if (n == 0)
            return true;
        if (b->len - start > max)
            return err_set(e, ERR_LIMIT, "over the limit of %zu bytes", max);
    }
}

bool file_read(const char *path, size_t max, struct buf *b, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, "%s", path);
    bool ok = file_read_fd(fd, max, b, e) || err_prefix(e, "%s", path);
    close(fd);
    return ok;
}

static bool write_all(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

static void folder_of(const char *path, char folder[4096])
{
    const char *slash = strrchr(path, '/');
    if (!slash || slash - path >= 4095)
        snprintf(folder, 4096, ".");
    else
        snprintf(folder, 4096, "%.*s", (int)(slash - path + 1), path);
}

static void sync_folder(const char *path)
{
    char folder[4096];
    folder_of(path, folder);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

/* A file without a name, where the file system has such: a kill while it is written leaves nothing
 * behind. */
static int open_unnamed(const char *path)
{
    char folder[4096];
    folder_of(path, folder);
    return open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
}

/* Links the file under a name of this thread's own. A file of that name is left over from a killed
 * thread with the same number, and is removed. */
static bool give_name(int fd, const char *path, char *name, size_t size)
{
    char open_file[64];
    int n = snprintf(name, size, "%s.%d", path, (int)gettid());
    snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", fd);
    if (n < 0 || (size_t)n >= size)
        return false;
    unlink(name);
    return linkat(AT_FDCWD, open_file, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
}

struct content {
    const void *data;
    size_t len;
    unsigned mode;
    bool synced; /* the disk is waited for */
};

static bool write_content(int fd, const struct content *c)
{
    return write_all(fd, c->data, c->len) && fchmod(fd, c->mode) == 0 &&
           (!c->synced || fsync(fd) == 0);
}

static bool replace(const char *path, const struct content *c, struct err *e)
{
    char temporary[4096];
    int n = snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    if (n < 0 || (size_t)n + 16 >= sizeof temporary)
        return err_set(e, ERR_LIMIT, "%s: path too long", path);
    int fd = open_unnamed(path);
    bool ok = fd >= 0 && write_content(fd, c) && give_name(fd, path, temporary, sizeof temporary);
    if (!ok) { /* The file system has no nameless files, or /proc is missing: a temporary name from
                  the beginning. */
        if (fd >= 0)
            close(fd);
        snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
        fd = mkostemp(temporary, O_CLOEXEC);
        if (fd < 0)
            return err_errno(e, "%s", temporary);
        ok = write_content(fd, c) || err_errno(e, "%s", temporary);
    }
    if (close(fd) != 0 && ok)
        ok = err_errno(e, "%s", temporary);
    if (ok && rename(temporary, path) != 0)
        ok = err_errno(e, "%s", path);
    if (!ok)
        unlink(temporary);
    else if (c->synced)
        sync_folder(path);
    return ok;
}

bool file_write_atomic(const char *path, const void *data, size_t len, unsigned mode, struct err *e)
{
    return replace(path, &(struct content){.data = data, .len = len, .mode = mode, .synced = true},
                   e);
}

bool file_write_unsynced(const char *path, const void *data, size_t len, unsigned mode,
                         struct err *e)
{
    return replace(path, &(struct content){.data = data, .len = len, .mode = mode}, e);
}

bool file_mkdirs(const char *path, unsigned mode, struct err *e)
{
    char part[4096];
    size_t len = strlen(path);
    if (len >= sizeof part)
        return err_set(e, ERR_LIMIT, "%s: path too long", path);
    for (size_t i = 1; i <= len; i++) {
        if (i < len && path[i] != '/')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, mode) != 0 && errno != EEXIST)
            return err_errno(e, "%s", part);
    }
    return file_is_dir(path) || err_set(e, ERR_IO, "%s: not a folder", path);
}

bool file_allocate(int fd, size_t size, struct err *e)
{
    int rc;
    while ((rc = posix_fallocate(fd, 0, (off_t)size)) == EINTR)
        ;
    errno = rc;
    return rc == 0 || err_errno(e, "a file of %zu bytes", size);
}

const char *file_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool file_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool file_join(char *out, size_t size, const char *dir, const char *name, struct err *e)
{
    size_t n = strlen(dir);
    int m = snprintf(out, size, "%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", name);
    return (m >= 0 && (size_t)m < size) || err_set(e, ERR_LIMIT, "%s/%s: path too long", dir, name);
}
