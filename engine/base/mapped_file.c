/* Opens files of one fixed layout that several processes map. A file of another layout is replaced
 * by a new one under its name, because shortening it would kill the processes that have it mapped.
 */
#include "engine/base/mapped_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"

static bool matches(int fd, const struct stat *st, const struct mapped_header *layout)
{
    struct mapped_header head;
    return st->st_size == (off_t)layout->size &&
           pread(fd, &head, sizeof head, 0) == (ssize_t)sizeof head &&
           !memcmp(&head, layout, sizeof head);
}

static bool make(int fd, const struct mapped_header *layout)
{
    return file_allocate(fd, layout->size, NULL) &&
           pwrite(fd, layout, sizeof *layout, 0) == (ssize_t)sizeof *layout;
}

static int open_file(const char *path, const struct mapped_header *layout, mode_t mode)
{
    for (int attempt = 0; attempt < 3; attempt++) {
        struct stat st;
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode);
        if (fd < 0)
            break;
        if (flock(fd, LOCK_EX) == 0 && fstat(fd, &st) == 0 &&
            st.st_nlink > 0) { /* 0: another replaced it meanwhile */
            if (matches(fd, &st, layout) || (st.st_size == 0 && make(fd, layout))) {
                flock(fd, LOCK_UN);
                return fd;
            }
            unlink(path);
        }
        close(fd);
    }
    return -1;
}

void *mapped_file_open(const char *path, struct mapped_header layout, mode_t mode, struct err *e)
{
    int fd = open_file(path, &layout, mode);
    void *at =
        fd < 0 ? MAP_FAILED : mmap(NULL, layout.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        err_errno(e, "%s", path);
    if (fd >= 0)
        close(fd);
    return at == MAP_FAILED ? NULL : at;
}

const void *mapped_file_open_readonly(const char *path, struct mapped_header layout)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *at = MAP_FAILED;
    if (fd >= 0 && fstat(fd, &st) == 0 && matches(fd, &st, &layout))
        at = mmap(NULL, layout.size, PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return at == MAP_FAILED ? NULL : at;
}
