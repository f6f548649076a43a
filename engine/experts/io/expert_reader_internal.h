/* What the two ways of reading share. Private to expert_reader*.c.
 *
 * `lock` guards queues, counters and jobs: with threads several of them take chunks and finish them; with io_uring
 * only the owner does, and the counters' readers meet it. */
#pragma once
#include <pthread.h>

#include "engine/experts/io/expert_reader.h"

struct chunk { /* one read */
    struct expert_job *job;
    uint8_t *to;
    uint64_t offset;
    uint32_t ask, want; /* bytes asked for (aligned), and how many of them the file has */
    uint32_t gate_up; /* of `ask`: bytes of the record's head */
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
    struct expert_job *gate_up_ready; /* by next_gate_up: urgent, their gate and up came and nobody was told */
    int32_t jobs_under_way; /* begun and not finished */
    uint64_t busy_since_ns; /* 0: nothing is under way */
    struct expert_reader_counters counters;
    struct uring_reader *uring;     /* one of these two */
    struct thread_reader *threads;
    char method[160];
};

/* Under the lock. The next chunk to read; false: none is waiting, or `depth` are under way. */
bool expert_reader_next_chunk(struct expert_reader *r, struct chunk *c);
/* Under the lock. `result`: bytes read or -errno. True: *c is to be read again for the rest. */
bool expert_reader_finish_chunk(struct expert_reader *r, struct chunk *c, int64_t result);

/* expert_reader_uring.c. NULL with *why when the system refuses it. */
struct uring_reader *uring_reader_create(struct expert_reader *r, const char **why);
void uring_reader_destroy(struct uring_reader **u);
void uring_reader_pump(struct uring_reader *u);           /* begins what may begin */
void uring_reader_reap(struct uring_reader *u, bool wait); /* finishes what has come; wait: for one at least */

/* expert_reader_threads.c */
struct thread_reader *thread_reader_create(struct expert_reader *r, struct err *e);
void thread_reader_destroy(struct thread_reader **t);
void thread_reader_wake(struct thread_reader *t);  /* there may be chunks to read */
void thread_reader_wait(struct thread_reader *t, bool gate_up_too); /* until something finished, or is a head */
int32_t thread_reader_count(const struct thread_reader *t);
