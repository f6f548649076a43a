/* Reads records from disk into memory: many at once, each part split into chunks, in the order in which they were
 * asked for, those that a step waits for before those that are only expected; of each record gate and up first, which the
 * step can begin with while the rest is read.
 *
 * Two ways: io_uring with O_DIRECT and registered files; where one of them is refused, a few threads that
 * pread. Results are the same; expert_reader_method() says which it is and why.
 *
 * One thread, the owner, calls everything but the counters. A job belongs to the reader from add until take. */
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
    int32_t depth;     /* chunks under way at most; 0: 16 */
    uint32_t chunk;    /* bytes of a read, rounded up to EXPERT_ALIGN, or half as many more where that brings gate and up at
                          once; 0: 4 MiB */
    bool no_uring, no_direct; /* as if the system refused them */
};

struct expert_job { /* one record to read; the caller fills the first part */
    const struct expert_record *record;
    uint8_t *memory; /* record_bytes long, aligned to EXPERT_ALIGN */
    void *owner;     /* the caller's */
    /* the reader's */
    struct expert_job *next, *next_gate_up;
    int32_t part;
    uint32_t done_in_part; /* bytes of the part that were handed out as chunks */
    uint32_t gate_up_unasked, gate_up_left; /* bytes of record->gate_up_bytes: not handed out yet, not come yet */
    int32_t under_way;     /* chunks */
    bool begun, urgent, failed;
    struct err err;
};

struct expert_reader_counters { /* since open */
    uint64_t reads, bytes;        /* finished reads and what they brought */
    uint64_t read_ns;             /* time with at least one read under way */
    uint64_t depth_sum;           /* reads under way, summed over the moments when one was begun */
    uint64_t errors;
    uint64_t latency[EXPERT_LATENCY_BUCKETS];
    double latency_sum_s;
    int32_t under_way;            /* now */
};

struct expert_reader *expert_reader_open(const struct expert_reader_params *p, struct err *e);
void expert_reader_close(struct expert_reader **r); /* waits for what is under way */
/* "io_uring, O_DIRECT, up to 16 reads at once", "4 threads, buffered: O_DIRECT is refused here". */
const char *expert_reader_method(const struct expert_reader *r);

void expert_reader_add(struct expert_reader *r, struct expert_job *job, bool urgent);
/* An expected record became one that is waited for. */
void expert_reader_make_urgent(struct expert_reader *r, struct expert_job *job);
/* Takes back a job of which nothing was read yet; false when it is under way. */
bool expert_reader_cancel(struct expert_reader *r, struct expert_job *job);
/* A finished job (failed says how), or NULL: none, or with `wait` none is under way. Where `gate_up` is given, also an urgent
 * job whose gate and up came and nothing else yet, once: then *gate_up is true and it stays the reader's. */
struct expert_job *expert_reader_take(struct expert_reader *r, bool wait, bool *gate_up);
/* Any thread. */
void expert_reader_counters(const struct expert_reader *r, struct expert_reader_counters *c);
