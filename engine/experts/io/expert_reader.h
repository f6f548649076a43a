/* Reads records from disk into memory, many at once, each part split into chunks. Reads that a step
 * waits for (urgent) go before those that are only expected; otherwise the order of requests is
 * kept. Of each record gate and up come first, so that the step can start with them while the rest
 * is read.
 *
 * It uses io_uring with O_DIRECT and registered files, or, where either is refused, a few threads
 * with pread(). Results are the same; expert_reader_method() says which one is used and why.
 *
 * One thread, the owner, calls everything except the counters. A job belongs to the reader from add
 * to take. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/experts/pack/expert_layout.h"

#define EXPERT_LATENCY_BUCKETS 20 /* bucket i: up to 16 us * 2^i; the last one has no bound */
#define EXPERT_LATENCY_FIRST 16e-6

struct expert_reader;

struct expert_reader_params {
    const struct expert_file *files; /* must outlive the reader */
    int32_t n_files;
    int32_t depth;  /* chunks in flight at most; 0: 16 */
    uint32_t chunk; /* bytes of a read, rounded up to EXPERT_ALIGN, or half as many more where that
                       brings gate and up at once; 0: 4 MiB */
    bool no_uring, no_direct; /* as if the system refused them */
};

struct expert_job { /* one record to read; the caller fills the first part */
    const struct expert_record *record;
    uint8_t *memory; /* record_bytes long, aligned to EXPERT_ALIGN */
    void *owner;     /* the caller's */
    /* the reader's */
    struct expert_job *next, *next_gate_up;
    int32_t part;
    uint32_t done_in_part; /* bytes of the part that were requested as chunks */
    uint32_t gate_up_unasked,
        gate_up_left;  /* bytes of record->gate_up_bytes: not requested yet, not arrived yet */
    int32_t under_way; /* chunks */
    bool begun, urgent, failed;
    struct err err;
};

struct expert_reader_counters { /* since open */
    uint64_t reads, bytes;      /* finished reads and the bytes that they returned */
    uint64_t read_ns;           /* time with at least one read in flight */
    uint64_t depth_sum;         /* reads in flight, summed over the starts of reads */
    uint64_t errors;
    uint64_t latency[EXPERT_LATENCY_BUCKETS];
    double latency_sum_s;
    int32_t under_way; /* now */
};

struct expert_reader *expert_reader_open(const struct expert_reader_params *p, struct err *e);
void expert_reader_close(struct expert_reader **r); /* waits for reads in flight */
/* "io_uring, O_DIRECT, up to 16 reads at once", "4 threads, buffered: O_DIRECT is refused here". */
const char *expert_reader_method(const struct expert_reader *r);

void expert_reader_add(struct expert_reader *r, struct expert_job *job, bool urgent);
/* Makes an expected read urgent: a step waits for it now. */
void expert_reader_make_urgent(struct expert_reader *r, struct expert_job *job);
/* Cancels a job that has not started; false if it has. */
bool expert_reader_cancel(struct expert_reader *r, struct expert_job *job);
/* A finished job (`failed` says how), or NULL if there is none; with `wait`, NULL if none is in
 * flight. If `gate_up` is not NULL, an urgent job of which only gate and up have arrived is also
 * returned, once: then *gate_up is true and the job still belongs to the reader. */
struct expert_job *expert_reader_take(struct expert_reader *r, bool wait, bool *gate_up);
/* Any thread. */
void expert_reader_counters(const struct expert_reader *r, struct expert_reader_counters *c);
