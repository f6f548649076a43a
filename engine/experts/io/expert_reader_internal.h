/* Shared by the two ways of reading. Private to expert_reader*.c.
 *
 * `lock` guards queues, counters and jobs. With threads, several of them take and finish chunks;
 * with io_uring only the owner does, but other threads read the counters. */
#pragma once
#include <pthread.h>

#include "engine/experts/io/expert_reader.h"

struct chunk { /* one read */
    struct expert_job *job;
    uint8_t *to;
    uint64_t offset;
    uint32_t ask, want; /* bytes to read (aligned), and how many of them are in the file */
    uint32_t gate_up;   /* of `ask`: bytes that belong to gate and up */
    int32_t file;
    int32_t tries, repeats;
    uint64_t began_ns;
};

struct job_queue {
    struct expert_job *first, *last;
};

struct uring_reader;
struct thread_reader;

struct expert_reader {
    struct expert_reader_params params;
    pthread_mutex_t lock;
    int *fds; /* [n_files] */
    bool direct;
    struct job_queue urgent, expected, finished;
    struct expert_job
        *gate_up_ready; /* by next_gate_up: urgent, gate and up have arrived, not reported yet */
    int32_t jobs_under_way; /* started and not finished */
    uint64_t busy_since_ns; /* 0: nothing is in flight */
    struct expert_reader_counters counters;
    struct uring_reader *uring; /* one of these two */
    struct thread_reader *threads;
    char method[160];
};

/* Under the lock. The next chunk to read; false: none is waiting, or `depth` are in flight. */
bool expert_reader_next_chunk(struct expert_reader *r, struct chunk *c);
/* Under the lock. `result`: bytes read or -errno. True: *c is to be read again for the rest. */
bool expert_reader_finish_chunk(struct expert_reader *r, struct chunk *c, int64_t result);

/* expert_reader_uring.c. NULL with *why when the system refuses it. */
struct uring_reader *uring_reader_create(struct expert_reader *r, const char **why);
void uring_reader_destroy(struct uring_reader **u);
void uring_reader_pump(struct uring_reader *u); /* starts reads up to the depth */
void uring_reader_reap(struct uring_reader *u,
                       bool wait); /* handles completions; wait: for at least one */

/* expert_reader_threads.c */
struct thread_reader *thread_reader_create(struct expert_reader *r, struct err *e);
void thread_reader_destroy(struct thread_reader **t);
void thread_reader_wake(struct thread_reader *t); /* there may be chunks to read */
void thread_reader_wait(struct thread_reader *t,
                        bool gate_up_too); /* until a read finishes, or gate and up have arrived */
int32_t thread_reader_count(const struct thread_reader *t);
