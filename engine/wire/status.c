/* The status page under a seqlock. The file is {sequence, padding, page}. The writer fills a
 * private copy and copies it out word by word between two odd/even steps of the sequence, so a
 * reader waits for a memcpy at most, never for whatever the engine was computing. Liveness is a
 * flock that the kernel drops with the process: no pid that could be reused or belong to another
 * namespace. */
#include "engine/wire/status.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/file.h"

#define HEARTBEAT_LIMIT_S 5.0
#define READ_TRIES 10000

struct status_file {
    uint64_t sequence; /* odd while the page is being copied */
    uint64_t reserved[7];
    struct status_page page;
};
_Static_assert(sizeof(struct status_page) % 8 == 0, "the page is copied in 8-byte words");

struct status_writer {
    int fd;
    struct status_file *shared;
    pthread_mutex_t lock; /* guards `page` and its copying; held from status_begin to status_end */
    struct status_page page;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void publish(struct status_writer *w)
{
    const uint64_t *from = (const uint64_t *)&w->page;
    uint64_t *to = (uint64_t *)&w->shared->page;
    uint64_t sequence = __atomic_load_n(&w->shared->sequence, __ATOMIC_RELAXED);
    __atomic_store_n(&w->shared->sequence, sequence + 1, __ATOMIC_RELAXED);
    /* each word is stored with release order: none can become visible before the odd sequence */
    for (size_t i = 0; i < sizeof w->page / sizeof *to; i++)
        __atomic_store_n(&to[i], from[i], __ATOMIC_RELEASE);
    __atomic_store_n(&w->shared->sequence, sequence + 2, __ATOMIC_RELEASE);
}

static struct status_writer *fail(struct status_writer *w, const char *path)
{
    if (w->shared)
        munmap(w->shared, sizeof *w->shared);
    if (w->fd >= 0)
        close(w->fd);
    unlink(path);
    free(w);
    return NULL;
}

static bool map_page(struct status_writer *w, const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return false;
    void *at = MAP_FAILED;
    if (fchmod(fd, 0644) == 0 && file_allocate(fd, sizeof *w->shared, NULL))
        at = mmap(NULL, sizeof *w->shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED)
        w->shared = at;
    close(fd);
    return w->shared != NULL;
}

/* By a descriptor of its own. A mapping keeps its descriptor's file open, and who reads the
 * engine's /proc keeps the mapping for a moment: the lock of an engine that has ended would keep
 * the next one from starting. */
static bool lock_page(struct status_writer *w, const char *path)
{
    w->fd = open(path, O_RDWR | O_CLOEXEC);
    return w->fd >= 0 && flock(w->fd, LOCK_EX | LOCK_NB) == 0;
}

/* True if a running engine holds the lock of the page, which must then not be replaced. */
static bool is_taken(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool taken = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    return taken;
}

struct status_writer *status_create(const char *path, struct err *e)
{
    char temporary[4096];
    if (is_taken(path)) {
        err_set(e, ERR_CONFLICT, "another engine writes the status file %s", path);
        return NULL;
    }
    struct status_writer *w = calloc(1, sizeof *w);
    if (!w) {
        err_set(e, ERR_NOMEM, "no memory for the status page");
        return NULL;
    }
    w->fd = -1;
    if ((size_t)snprintf(temporary, sizeof temporary, "%s.new", path) >= sizeof temporary) {
        err_set(e, ERR_INPUT, "status file: path too long");
        free(w);
        return NULL;
    }
    unlink(temporary);
    if (!map_page(w, temporary) || !lock_page(w, temporary)) {
        err_errno(e, "status file %s", path);
        return fail(w, temporary);
    }
    pthread_mutex_init(&w->lock, NULL);
    struct status_page *p = &w->page;
    p->magic = STATUS_MAGIC;
    p->version = STATUS_VERSION;
    p->size = sizeof *p;
    p->pid = getpid();
    p->started = p->heartbeat = now_s();
    p->state = ENGINE_LOADING;
    publish(w);
    /* only now: whoever finds the file under its name finds a whole page */
    if (rename(temporary, path) != 0) {
        err_errno(e, "status file %s", path);
        pthread_mutex_destroy(&w->lock);
        return fail(w, temporary);
    }
    return w;
}

struct status_page *status_begin(struct status_writer *w)
{
    pthread_mutex_lock(&w->lock);
    return &w->page;
}

void status_end(struct status_writer *w)
{
    w->page.heartbeat = now_s();
    publish(w);
    pthread_mutex_unlock(&w->lock);
}

void status_close(struct status_writer **w)
{
    if (!*w)
        return;
    struct status_page *p = status_begin(*w);
    p->state = ENGINE_DOWN;
    if (!p->error[0])
        snprintf(p->error, sizeof p->error, "the engine was stopped");
    status_end(*w);
    munmap((*w)->shared, sizeof *(*w)->shared);
    close((*w)->fd);
    pthread_mutex_destroy(&(*w)->lock);
    free(*w);
    *w = NULL;
}

void status_histogram_init(struct status_histogram *h, double first, double factor)
{
    *h = (struct status_histogram){0};
    for (int i = 0; i < STATUS_BUCKETS - 1; i++, first *= factor)
        h->bound[i] = first;
    h->bound[STATUS_BUCKETS - 1] = INFINITY;
}

void status_histogram_add(struct status_histogram *h, double value)
{
    int i = 0;
    while (i < STATUS_BUCKETS - 1 && !(value <= h->bound[i]))
        i++;
    h->count[i]++;
    h->sum += value;
    h->total++;
}

/* False: the writer kept writing, or died in the middle of a copy. */
static bool copy_page(const struct status_file *file, struct status_page *out)
{
    const uint64_t *from = (const uint64_t *)&file->page;
    uint64_t *to = (uint64_t *)out;
    for (int attempt = 0; attempt < READ_TRIES; attempt++) {
        uint64_t before = __atomic_load_n(&file->sequence, __ATOMIC_ACQUIRE);
        /* acquire on each word: none can be read after the second look at the sequence */
        for (size_t i = 0; i < sizeof *out / sizeof *to; i++)
            to[i] = __atomic_load_n(&from[i], __ATOMIC_ACQUIRE);
        uint64_t after = __atomic_load_n(&file->sequence, __ATOMIC_RELAXED);
        if (before == after && !(before & 1))
            return true;
    }
    return false;
}

static void mark_down(struct status_page *p, const char *why)
{
    /* an engine that said why it stopped knows better than we do */
    if (p->state == ENGINE_DOWN && p->error[0])
        return;
    p->state = ENGINE_DOWN;
    snprintf(p->error, sizeof p->error, "%s", why);
}

static void judge_liveness(int fd, struct status_page *p)
{
    double age = now_s() - p->heartbeat;
    char why[128];
    if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
        mark_down(p, "the engine process is gone");
    } else if (age > HEARTBEAT_LIMIT_S && p->state != ENGINE_DOWN) {
        snprintf(why, sizeof why, "no heartbeat from the engine for %.0f s", age);
        mark_down(p, why);
    }
}

bool status_read(const char *path, struct status_page *out, struct err *e)
{
    struct status_file *file = MAP_FAILED;
    struct stat st;
    bool ok = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, "status file %s", path);
    if (fstat(fd, &st) != 0) {
        err_errno(e, "status file %s", path);
        goto out;
    }
    if (st.st_size < (off_t)sizeof *file) {
        err_set(e, ERR_FORMAT, "status file %s has %lld bytes, expected %zu", path,
                (long long)st.st_size, sizeof *file);
        goto out;
    }
    file = mmap(NULL, sizeof *file, PROT_READ, MAP_SHARED, fd, 0);
    if (file == MAP_FAILED) {
        err_errno(e, "status file %s", path);
        goto out;
    }
    bool whole = copy_page(file, out);
    if (out->magic != STATUS_MAGIC || out->version != STATUS_VERSION || out->size != sizeof *out) {
        err_set(e, ERR_FORMAT, "status file %s is of another version of the engine", path);
        goto out;
    }
    judge_liveness(fd, out);
    if (!whole && out->state != ENGINE_DOWN) {
        err_set(e, ERR_BUSY, "status file %s is being written", path);
        goto out;
    }
    ok = true;
out:
    if (file != MAP_FAILED)
        munmap(file, sizeof *file);
    close(fd);
    return ok;
}

const char *engine_state_name(int32_t state)
{
    static const char *const names[] = {
        [ENGINE_DOWN] = "down",         [ENGINE_LOADING] = "loading",
        [ENGINE_READY] = "ready",       [ENGINE_LOST_DEVICE] = "lost_device",
        [ENGINE_STOPPING] = "stopping",
    };
    return state >= 0 && state <= ENGINE_STOPPING ? names[state] : "unknown";
}
