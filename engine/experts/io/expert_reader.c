/* Splits records into chunks, keeps the queues of urgent and expected reads, and decides what
 * the result of a read means. The system calls are in expert_reader_uring.c and
 * expert_reader_threads.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/experts/io/expert_reader_internal.h"

#define DEFAULT_DEPTH 16
#define DEFAULT_CHUNK (4u << 20)
#define EXPECTED_DEPTH                                                                             \
    9 /* of expected reads: an urgent read queues behind those in flight, so they stay few */
#define MAX_DEPTH 1024
#define MAX_TRIES 3      /* of a chunk that returned too few bytes */
#define MAX_REPEATS 1000 /* of a chunk that was interrupted or got EAGAIN */

static void push(struct job_queue *q, struct expert_job *job)
{
    job->next = NULL;
    if (q->last)
        q->last->next = job;
    else
        q->first = job;
    q->last = job;
}

static void push_front(struct job_queue *q, struct expert_job *job)
{
    job->next = q->first;
    q->first = job;
    if (!q->last)
        q->last = job;
}

static bool unlink_job(struct job_queue *q, struct expert_job *job)
{
    struct expert_job *before = NULL;
    for (struct expert_job *j = q->first; j; before = j, j = j->next) {
        if (j != job)
            continue;
        if (before)
            before->next = j->next;
        else
            q->first = j->next;
        if (q->last == j)
            q->last = before;
        return true;
    }
    return false;
}

static void fail_job(struct expert_job *job, const struct chunk *c, const struct expert_reader *r,
                     const char *what)
{
    if (job->failed)
        return;
    job->failed = true;
    err_set(&job->err, ERR_IO, "%s: %s at offset %llu",
            file_base_name(r->params.files[c->file].path), what, (unsigned long long)c->offset);
}

/* --- chunks --- */

static bool all_requested(const struct expert_job *job)
{
    return job->failed || job->part == job->record->n_parts;
}

static void make_chunk(const struct expert_reader *r, struct expert_job *job, struct chunk *c)
{
    const struct expert_part *p = &job->record->parts[job->part];
    const uint32_t left = p->length - job->done_in_part, most = r->params.chunk;
    uint32_t ask = left < most ? left : most,
             gate_up = job->gate_up_unasked < left ? job->gate_up_unasked : left;
    if (gate_up &&
        gate_up <
            most + most / 2) /* end the chunk with gate and up unless that costs another read */
        ask = gate_up;
    gate_up = gate_up < ask ? gate_up : ask;
    *c = (struct chunk){.job = job,
                        .to = job->memory + p->at + job->done_in_part,
                        .offset = p->offset + job->done_in_part,
                        .ask = ask,
                        .want = ask,
                        .gate_up = gate_up,
                        .file = p->file};
    job->gate_up_unasked -= gate_up;
    uint64_t size = r->params.files[p->file].size,
             in_file = size > c->offset ? size - c->offset : 0;
    if (in_file < ask)
        c->want = (uint32_t)in_file;
    job->done_in_part += ask;
    if (job->done_in_part == p->length) {
        job->part++;
        job->done_in_part = 0;
    }
}

bool expert_reader_next_chunk(struct expert_reader *r, struct chunk *c)
{
    const bool urgent = r->urgent.first != NULL;
    struct job_queue *q = urgent ? &r->urgent : &r->expected;
    struct expert_job *job = q->first;
    const int32_t depth =
        urgent || r->params.depth < EXPECTED_DEPTH ? r->params.depth : EXPECTED_DEPTH;
    if (!job || r->counters.under_way >= depth)
        return false;
    if (!job->begun) {
        job->begun = true;
        r->jobs_under_way++;
    }
    make_chunk(r, job, c);
    job->under_way++;
    if (all_requested(job))
        unlink_job(q, job);
    c->began_ns = clock_ns();
    if (!r->counters.under_way++)
        r->busy_since_ns = c->began_ns;
    r->counters.depth_sum += (uint64_t)r->counters.under_way;
    return true;
}

static void note_latency(struct expert_reader *r, uint64_t ns)
{
    double bound = EXPERT_LATENCY_FIRST * 1e9;
    int i = 0;
    for (; i < EXPERT_LATENCY_BUCKETS - 1 && (double)ns > bound; i++)
        bound *= 2;
    r->counters.latency[i]++;
    r->counters.latency_sum_s += (double)ns * 1e-9;
}

static void list_gate_up(struct expert_reader *r, struct expert_job *job)
{
    job->next_gate_up = r->gate_up_ready;
    r->gate_up_ready = job;
}

static void unlist_gate_up(struct expert_reader *r, const struct expert_job *job)
{
    for (struct expert_job **at = &r->gate_up_ready; *at; at = &(*at)->next_gate_up)
        if (*at == job) {
            *at = job->next_gate_up;
            return;
        }
}

static void end_chunk(struct expert_reader *r, struct chunk *c)
{
    struct expert_job *job = c->job;
    job->under_way--;
    job->gate_up_left -= c->gate_up;
    if (c->gate_up && !job->gate_up_left && job->urgent && !job->failed)
        list_gate_up(r, job);
    if (!--r->counters.under_way)
        r->counters.read_ns += clock_ns() - r->busy_since_ns;
    if (job->failed &&
        job->part < job->record->n_parts) { /* the rest of a failed job is not requested any more */
        unlink_job(&r->urgent, job);
        unlink_job(&r->expected, job);
        job->part = job->record->n_parts;
    }
    if (!job->under_way && all_requested(job)) {
        r->jobs_under_way--;
        unlist_gate_up(r, job);
        push(&r->finished, job);
    }
}

bool expert_reader_finish_chunk(struct expert_reader *r, struct chunk *c, int64_t result)
{
    if ((result == -EINTR || result == -EAGAIN) && ++c->repeats < MAX_REPEATS)
        return true;
    note_latency(r, clock_ns() - c->began_ns);
    r->counters.reads++;
    if (result < 0) {
        r->counters.errors++;
        fail_job(c->job, c, r, strerror((int)-result));
    } else {
        r->counters.bytes += (uint64_t)result;
        if (result < c->want) {
            uint32_t whole = (uint32_t)result / EXPERT_ALIGN * EXPERT_ALIGN;
            if (result &&
                ++c->tries < MAX_TRIES) { /* a short read: continue from the last whole block */
                c->to += whole;
                c->offset += whole;
                c->ask -= whole;
                c->want -= whole;
                c->began_ns = clock_ns();
                return true;
            }
            r->counters.errors++;
            fail_job(c->job, c, r, result ? "short read" : "the file is shorter than it was");
        }
    }
    end_chunk(r, c);
    return false;
}

/* Fails a job whose file has changed since the layout was made: its data must not be mixed with
 * records that are cached already. */
static void check_files(const struct expert_reader *r, struct expert_job *job)
{
    int32_t last = -1;
    for (int32_t i = 0; i < job->record->n_parts && !job->failed; i++) {
        int32_t file = job->record->parts[i].file;
        const struct expert_file *f = &r->params.files[file];
        struct stat st;
        if (file == last)
            continue;
        last = file;
        if (fstat(r->fds[file], &st) == 0 && (uint64_t)st.st_size == f->size &&
            (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec == f->mtime_ns)
            continue;
        job->failed = true;
        err_set(&job->err, ERR_IO, "%s was changed while in use", file_base_name(f->path));
    }
}

/* --- interface --- */

static void start_reads(struct expert_reader *r)
{
    if (r->uring)
        uring_reader_pump(r->uring);
    else
        thread_reader_wake(r->threads);
}

void expert_reader_add(struct expert_reader *r, struct expert_job *job, bool urgent)
{
    pthread_mutex_lock(&r->lock);
    job->part = 0;
    job->done_in_part = 0;
    job->under_way = 0;
    job->gate_up_unasked = job->gate_up_left = job->record->gate_up_bytes;
    job->begun = job->failed = false;
    job->urgent = urgent;
    push(urgent ? &r->urgent : &r->expected, job);
    pthread_mutex_unlock(&r->lock);
    start_reads(r);
}

void expert_reader_make_urgent(struct expert_reader *r, struct expert_job *job)
{
    pthread_mutex_lock(&r->lock);
    if (!job->urgent && unlink_job(&r->expected, job)) {
        if (job->begun) /* part of it has arrived already */
            push_front(&r->urgent, job);
        else
            push(&r->urgent, job);
    }
    const bool ended = !job->under_way && all_requested(job);
    if (!job->urgent && !ended && !job->failed && !job->gate_up_left)
        list_gate_up(r, job);
    job->urgent = true;
    pthread_mutex_unlock(&r->lock);
    start_reads(r); /* more urgent reads than expected ones may be in flight */
}

bool expert_reader_cancel(struct expert_reader *r, struct expert_job *job)
{
    pthread_mutex_lock(&r->lock);
    bool dropped = !job->begun && (unlink_job(&r->expected, job) || unlink_job(&r->urgent, job));
    pthread_mutex_unlock(&r->lock);
    return dropped;
}

static struct expert_job *take_finished(struct expert_reader *r, bool *gate_up, bool *more)
{
    pthread_mutex_lock(&r->lock);
    struct expert_job *job = r->finished.first;
    const bool whole = job != NULL;
    if (whole) {
        unlink_job(&r->finished, job);
    } else if (gate_up && r->gate_up_ready) {
        job = r->gate_up_ready;
        unlist_gate_up(r, job);
    }
    if (gate_up)
        *gate_up = job && !whole;
    *more = r->jobs_under_way || r->urgent.first || r->expected.first;
    pthread_mutex_unlock(&r->lock);
    return job;
}

struct expert_job *expert_reader_take(struct expert_reader *r, bool wait, bool *gate_up)
{
    for (;;) {
        bool more;
        if (r->uring)
            uring_reader_reap(r->uring, false);
        struct expert_job *job = take_finished(r, gate_up, &more);
        if (job) {
            if (!gate_up || !*gate_up)
                check_files(r, job);
            return job;
        }
        if (!wait || !more)
            return NULL;
        if (r->uring)
            uring_reader_reap(r->uring, true);
        else
            thread_reader_wait(r->threads, gate_up != NULL);
    }
}

void expert_reader_counters(const struct expert_reader *r, struct expert_reader_counters *c)
{
    struct expert_reader *open = (struct expert_reader *)r; /* for the lock alone */
    pthread_mutex_lock(&open->lock);
    *c = r->counters;
    if (c->under_way)
        c->read_ns += clock_ns() - r->busy_since_ns;
    pthread_mutex_unlock(&open->lock);
}

const char *expert_reader_method(const struct expert_reader *r)
{
    return r->method;
}

/* --- opening --- */

/* Some file systems accept the flag and then refuse the read. */
static bool reads_directly(int fd)
{
    void *block = aligned_alloc(EXPERT_ALIGN, EXPERT_ALIGN);
    bool ok = block && pread(fd, block, EXPERT_ALIGN, 0) >= 0;
    free(block);
    return ok;
}

static bool open_files(struct expert_reader *r, bool direct, struct err *e)
{
    for (int32_t i = 0; i < r->params.n_files; i++) {
        const struct expert_file *f = &r->params.files[i];
        struct expert_file now = {.path = f->path};
        if (r->fds[i] >= 0)
            close(r->fds[i]);
        r->fds[i] = open(f->path, O_RDONLY | O_CLOEXEC | (direct ? O_DIRECT : 0));
        if (direct && (r->fds[i] < 0 ? errno == EINVAL : !reads_directly(r->fds[i])))
            return false;
        if (r->fds[i] < 0)
            return err_errno(e, "%s", f->path);
        if (!expert_file_identify(&now, e))
            return false;
        if (now.size != f->size || now.inode != f->inode || now.device != f->device ||
            now.mtime_ns != f->mtime_ns)
            return err_set(e, ERR_CONFLICT, "%s changed since the model was opened", f->path);
    }
    return true;
}

static bool start(struct expert_reader *r, struct err *e)
{
    const char *why = "as asked";
    struct err refused = {0};
    r->direct = !r->params.no_direct && open_files(r, true, &refused);
    if (!r->direct && refused.code) {
        *e = refused;
        return false;
    }
    if (!r->direct && !open_files(r, false, e))
        return false;
    if (r->direct && !r->params.no_uring)
        r->uring = uring_reader_create(r, &why);
    if (r->uring) {
        snprintf(r->method, sizeof r->method, "io_uring, O_DIRECT, up to %d reads at once",
                 r->params.depth);
        return true;
    }
    r->threads = thread_reader_create(r, e);
    if (!r->threads)
        return false;
    if (r->direct)
        snprintf(r->method, sizeof r->method, "%d threads, O_DIRECT: no io_uring (%s)",
                 thread_reader_count(r->threads), why);
    else
        snprintf(r->method, sizeof r->method,
                 "%d threads, buffered: the file system has no O_DIRECT",
                 thread_reader_count(r->threads));
    return true;
}

struct expert_reader *expert_reader_open(const struct expert_reader_params *p, struct err *e)
{
    struct expert_reader *r = calloc(1, sizeof *r);
    int *fds = calloc((size_t)p->n_files, sizeof *fds);
    if (!r || !fds) {
        free(r);
        free(fds);
        err_set(e, ERR_NOMEM, "no memory for the expert reader");
        return NULL;
    }
    r->params = *p;
    r->fds = fds;
    for (int32_t i = 0; i < p->n_files; i++)
        fds[i] = -1;
    r->params.depth = p->depth <= 0 ? DEFAULT_DEPTH : p->depth > MAX_DEPTH ? MAX_DEPTH : p->depth;
    r->params.chunk =
        p->chunk ? (p->chunk + EXPERT_ALIGN - 1) / EXPERT_ALIGN * EXPERT_ALIGN : DEFAULT_CHUNK;
    pthread_mutex_init(&r->lock, NULL);
    if (!start(r, e))
        expert_reader_close(&r);
    return r;
}

void expert_reader_close(struct expert_reader **pr)
{
    struct expert_reader *r = *pr;
    *pr = NULL;
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->urgent = r->expected =
        (struct job_queue){0}; /* wait for reads in flight and drop the rest */
    pthread_mutex_unlock(&r->lock);
    uring_reader_destroy(&r->uring);
    thread_reader_destroy(&r->threads);
    for (int32_t i = 0; i < r->params.n_files; i++)
        if (r->fds[i] >= 0)
            close(r->fds[i]);
    free(r->fds);
    pthread_mutex_destroy(&r->lock);
    free(r);
}
