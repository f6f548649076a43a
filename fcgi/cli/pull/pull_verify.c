/* The thread that reads finished files back from the disk and hashes them, while others still load.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fcgi/cli/pull/pull.h"

enum { BLOCK = 1 << 20 };

struct job {
    struct pull_file *file;
    char path[4096], sum[DIGEST_TEXT_SIZE];
    struct err why;
    struct job *next;
};

struct pull_verify {
    pthread_t thread;
    pthread_mutex_t lock; /* of the lists and `ending` */
    pthread_cond_t more;
    struct job *waiting, *done;
    volatile int ending; /* also read without it, to leave a long file early */
    void (*wake)(void *);
    void *context;
};

bool pull_sha256_file(const char *path, const volatile int *stop, char sum[DIGEST_TEXT_SIZE],
                      struct err *e)
{
    struct digest d;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *block = malloc(BLOCK);
    ssize_t n = 0;
    bool ok = fd >= 0 && block;
    if (!ok)
        err_errno(e, "%s", path);
    digest_begin(&d);
    while (ok && (n = read(fd, block, BLOCK)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            ok = err_errno(e, "%s", path);
        else if (stop && *stop)
            ok = err_set(e, ERR_CANCELLED, "stopped");
        else
            digest_add(&d, block, (size_t)n);
    }
    digest_end(&d, sum);
    if (!ok)
        sum[0] = 0;
    free(block);
    if (fd >= 0)
        close(fd);
    return ok;
}

static void append(struct job **list, struct job *j)
{
    while (*list)
        list = &(*list)->next;
    j->next = NULL;
    *list = j;
}

static void *run(void *argument)
{
    struct pull_verify *v = argument;
    pthread_mutex_lock(&v->lock);
    while (!v->ending) {
        struct job *j = v->waiting;
        if (!j) {
            pthread_cond_wait(&v->more, &v->lock);
            continue;
        }
        v->waiting = j->next;
        pthread_mutex_unlock(&v->lock);
        pull_sha256_file(j->path, &v->ending, j->sum, &j->why);
        pthread_mutex_lock(&v->lock);
        append(&v->done, j);
        v->wake(v->context);
    }
    pthread_mutex_unlock(&v->lock);
    return NULL;
}

struct pull_verify *pull_verify_create(void (*wake)(void *), void *context)
{
    struct pull_verify *v = calloc(1, sizeof *v);
    if (!v)
        return NULL;
    v->wake = wake;
    v->context = context;
    pthread_mutex_init(&v->lock, NULL);
    pthread_cond_init(&v->more, NULL);
    if (pthread_create(&v->thread, NULL, run, v) == 0)
        return v;
    free(v);
    return NULL;
}

static void free_jobs(struct job *j)
{
    while (j) {
        struct job *next = j->next;
        free(j);
        j = next;
    }
}

void pull_verify_destroy(struct pull_verify **v)
{
    if (!*v)
        return;
    pthread_mutex_lock(&(*v)->lock);
    (*v)->ending = 1;
    pthread_cond_signal(&(*v)->more);
    pthread_mutex_unlock(&(*v)->lock);
    pthread_join((*v)->thread, NULL);
    free_jobs((*v)->waiting);
    free_jobs((*v)->done);
    pthread_cond_destroy(&(*v)->more);
    pthread_mutex_destroy(&(*v)->lock);
    free(*v);
    *v = NULL;
}

bool pull_verify_put(struct pull_verify *v, struct pull_file *f, const char *path)
{
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        return false;
    j->file = f;
    snprintf(j->path, sizeof j->path, "%s", path);
    pthread_mutex_lock(&v->lock);
    append(&v->waiting, j);
    pthread_cond_signal(&v->more);
    pthread_mutex_unlock(&v->lock);
    return true;
}

struct pull_file *pull_verify_take(struct pull_verify *v, char sum[DIGEST_TEXT_SIZE], struct err *e)
{
    pthread_mutex_lock(&v->lock);
    struct job *j = v->done;
    if (j)
        v->done = j->next;
    pthread_mutex_unlock(&v->lock);
    if (!j)
        return NULL;
    struct pull_file *f = j->file;
    memcpy(sum, j->sum, DIGEST_TEXT_SIZE);
    if (j->why.code)
        *e = j->why;
    free(j);
    return f;
}
