/* Reads chunks with io_uring: the owner thread submits reads and reaps completions, and needs no
 * thread of its own. */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

#include "engine/experts/io/expert_reader_internal.h"

struct uring_reader {
    struct expert_reader *reader;
    struct io_uring ring;
    struct chunk *chunks; /* [depth] */
    int32_t *unused;      /* [n_unused] indices of chunks */
    int32_t n_unused, n_begun;
};

static void prepare(struct uring_reader *u, int32_t i)
{
    const struct chunk *c = &u->chunks[i];
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring); /* there are as many as chunks */
    io_uring_prep_read(sqe, c->file, c->to, c->ask, c->offset);
    io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
    io_uring_sqe_set_data64(sqe, (uint64_t)i);
}

static void submit(struct uring_reader *u)
{
    while (io_uring_sq_ready(&u->ring)) {
        int n = io_uring_submit(&u->ring);
        if (n < 0 && n != -EINTR)
            return; /* -EAGAIN, -EBUSY: retried after the next completion */
    }
}

void uring_reader_pump(struct uring_reader *u)
{
    struct chunk c;
    pthread_mutex_lock(&u->reader->lock);
    while (u->n_unused && expert_reader_next_chunk(u->reader, &c)) {
        int32_t i = u->unused[--u->n_unused];
        u->chunks[i] = c;
        u->n_begun++;
        prepare(u, i);
    }
    pthread_mutex_unlock(&u->reader->lock);
    submit(u);
}

static void finish(struct uring_reader *u, struct io_uring_cqe *cqe)
{
    int32_t i = (int32_t)io_uring_cqe_get_data64(cqe);
    pthread_mutex_lock(&u->reader->lock);
    bool again = expert_reader_finish_chunk(u->reader, &u->chunks[i], cqe->res);
    pthread_mutex_unlock(&u->reader->lock);
    io_uring_cqe_seen(&u->ring, cqe);
    if (again) {
        prepare(u, i);
    } else {
        u->unused[u->n_unused++] = i;
        u->n_begun--;
    }
}

void uring_reader_reap(struct uring_reader *u, bool wait)
{
    struct io_uring_cqe *cqe;
    bool any = false;
    if (wait && u->n_begun)
        io_uring_submit_and_wait(&u->ring, 1);
    else
        submit(u);
    while (u->n_begun && io_uring_peek_cqe(&u->ring, &cqe) == 0) {
        finish(u, cqe);
        any = true;
    }
    if (any)
        uring_reader_pump(u);
}

struct uring_reader *uring_reader_create(struct expert_reader *r, const char **why)
{
    struct uring_reader *u = calloc(1, sizeof *u);
    int32_t depth = r->params.depth;
    *why = "no memory";
    if (!u)
        return NULL;
    int failure = io_uring_queue_init((unsigned)depth, &u->ring, IORING_SETUP_CLAMP);
    if (failure) {
        *why = strerror(-failure);
        free(u);
        return NULL;
    }
    u->reader = r;
    u->chunks = calloc((size_t)depth, sizeof *u->chunks);
    u->unused = calloc((size_t)depth, sizeof *u->unused);
    failure = u->chunks && u->unused
                  ? io_uring_register_files(&u->ring, r->fds, (unsigned)r->params.n_files)
                  : -ENOMEM;
    if (failure) {
        *why = strerror(-failure);
        uring_reader_destroy(&u);
        return NULL;
    }
    for (int32_t i = 0; i < depth; i++)
        u->unused[u->n_unused++] = i;
    return u;
}

void uring_reader_destroy(struct uring_reader **pu)
{
    struct uring_reader *u = *pu;
    *pu = NULL;
    if (!u)
        return;
    struct io_uring_cqe *cqe;
    while (u->n_begun &&
           io_uring_wait_cqe(&u->ring, &cqe) == 0) { /* the kernel must not write to freed memory */
        finish(u, cqe);
        submit(u);
    }
    io_uring_queue_exit(&u->ring);
    free(u->chunks);
    free(u->unused);
    free(u);
}
