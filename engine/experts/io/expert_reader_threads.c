/* Reads chunks with pread() in a few threads, for systems that refuse io_uring or O_DIRECT. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/experts/io/expert_reader_internal.h"

#define MAX_THREADS 8

struct thread_reader {
    struct expert_reader *reader; /* its lock guards `stop` and belongs to both conditions */
    pthread_cond_t work, done;
    bool stop;
    int32_t n, started;
    pthread_t threads[MAX_THREADS];
};

static int64_t read_chunk(const struct expert_reader *r, const struct chunk *c)
{
    int fd = r->fds[c->file];
    ssize_t n = pread(fd, c->to, c->ask, (off_t)c->offset);
    if (n < 0)
        return -errno;
    if (!r->direct) /* we keep a copy, so the page cache need not */
        posix_fadvise(fd, (off_t)c->offset, c->ask, POSIX_FADV_DONTNEED);
    return n;
}

static void *run(void *context)
{
    struct thread_reader *t = context;
    struct expert_reader *r = t->reader;
    struct chunk c;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        while (!expert_reader_next_chunk(r, &c)) {
            if (t->stop) {
                pthread_mutex_unlock(&r->lock);
                return NULL;
            }
            pthread_cond_wait(&t->work, &r->lock);
        }
        bool again = true;
        while (again) {
            pthread_mutex_unlock(&r->lock);
            int64_t result = read_chunk(r, &c);
            pthread_mutex_lock(&r->lock);
            again = expert_reader_finish_chunk(r, &c, result);
        }
        pthread_cond_signal(&t->done);
    }
}

void thread_reader_wake(struct thread_reader *t)
{
    pthread_mutex_lock(&t->reader->lock);
    pthread_cond_broadcast(&t->work);
    pthread_mutex_unlock(&t->reader->lock);
}

void thread_reader_wait(struct thread_reader *t, bool gate_up_too)
{
    struct expert_reader *r = t->reader;
    pthread_mutex_lock(&r->lock);
    while (!r->finished.first && !(gate_up_too && r->gate_up_ready) &&
           (r->jobs_under_way || r->urgent.first || r->expected.first))
        pthread_cond_wait(&t->done, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

int32_t thread_reader_count(const struct thread_reader *t)
{
    return t->n;
}

struct thread_reader *thread_reader_create(struct expert_reader *r, struct err *e)
{
    struct thread_reader *t = calloc(1, sizeof *t);
    if (!t) {
        err_set(e, ERR_NOMEM, "no memory for reading threads");
        return NULL;
    }
    t->reader = r;
    t->n = r->params.depth < MAX_THREADS ? r->params.depth : MAX_THREADS;
    pthread_cond_init(&t->work, NULL);
    pthread_cond_init(&t->done, NULL);
    while (t->started < t->n && pthread_create(&t->threads[t->started], NULL, run, t) == 0)
        t->started++;
    t->n = t->started;
    if (t->started)
        return t;
    err_set(e, ERR_NOMEM, "cannot start a reading thread");
    thread_reader_destroy(&t);
    return NULL;
}

void thread_reader_destroy(struct thread_reader **pt)
{
    struct thread_reader *t = *pt;
    *pt = NULL;
    if (!t)
        return;
    pthread_mutex_lock(&t->reader->lock);
    t->stop = true;
    pthread_cond_broadcast(&t->work);
    pthread_mutex_unlock(&t->reader->lock);
    for (int32_t i = 0; i < t->started; i++)
        pthread_join(t->threads[i], NULL);
    pthread_cond_destroy(&t->work);
    pthread_cond_destroy(&t->done);
    free(t);
}
