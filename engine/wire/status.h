/* The engine's status page: one small file, mapped by the engine for writing and by everyone else
 * for reading, under a seqlock. It can be read at once, even when the engine is down: then the
 * heartbeat is old or the process is gone, and status_read says so.
 *
 * Writer: any thread of the engine; status_begin .. status_end holds a lock (the loop counts, the
 * monitor thread keeps the heartbeat going while a step or a load takes long). Readers: any thread,
 * any process, no lock. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/engine.h"

#define STATUS_MAGIC 0x53544c53u
#define STATUS_VERSION 11
#define STATUS_BUCKETS 20
#define STATUS_JOBS 64
#define STATUS_PARTS 5
#define STATUS_PART_FORMATS 4

/* How a job ended: a finish of engine.h, or that it failed. Indices of jobs_done in every page
 * there is, so none may change: a finish that is added to engine.h gets its row here, below
 * OUTCOME_FAILED. */
enum job_outcome {
    OUTCOME_EOS = ENGINE_STOP_EOS,
    OUTCOME_STOP_STRING = ENGINE_STOP_STRING,
    OUTCOME_LENGTH = ENGINE_LENGTH,
    OUTCOME_CANCELLED = ENGINE_CANCELLED,
    OUTCOME_FAILED = 7,
    OUTCOME__N
};
_Static_assert(OUTCOME_CANCELLED + 1 == (int)ENGINE_FINISH__N &&
                   (int)ENGINE_FINISH__N <= OUTCOME_FAILED,
               "each finish has an outcome");

enum engine_state {
    ENGINE_DOWN,
    ENGINE_LOADING,
    ENGINE_READY,
    ENGINE_LOST_DEVICE,
    ENGINE_STOPPING
};

struct status_histogram { /* Prometheus style: count[i] holds values <= bound[i], not cumulative;
                             the last bound is infinite */
    double bound[STATUS_BUCKETS];
    uint64_t count[STATUS_BUCKETS];
    double sum;
    uint64_t total;
};

struct status_job {
    uint64_t id, user;
    int32_t state; /* 1 queued, 2 prefill, 3 decode */
    int32_t prompt_tokens, done_tokens, completion_tokens;
    double started_s; /* Unix time */
    char request_id[48];
};

struct status_part { /* of the model's weights: "experts", "attention", ...; "" after the last */
    char name[24];
    uint64_t bytes;
    struct {
        char text[24]; /* "mxfp4", "affine 8-bit g64"; "" after the last */
        uint64_t bytes;
    } formats[STATUS_PART_FORMATS]; /* the greatest */
};

/* Experts that stay on disk, counted where they are read; all zero when the model is in memory. See
 * engine/experts/cache/expert_cache.h for what each means. */
struct status_experts {
    uint64_t budget_bytes, resident_bytes, locked_bytes, resident_experts; /* now */
    int32_t reads_under_way, prefetching; /* now; prefetching: 1 while reading ahead pays */
    uint64_t asked, hits, late, misses, evictions, failures;
    uint64_t reads, read_errors, read_bytes, miss_bytes, prefetch_useful_bytes,
        prefetch_wasted_bytes, warm_bytes;
    double wait_seconds,
        read_seconds;      /* time steps waited; time with at least one read in flight */
    double read_depth_sum; /* reads in flight, summed over the reads */
    struct status_histogram read_time;
    char way[160]; /* how it reads */
};

struct status_page { /* only fixed-size fields; sizes in bytes, rates per second, times in seconds
                        unless named */
    uint32_t magic, version;
    uint64_t size;
    int64_t pid;
    double heartbeat; /* Unix time of the last update; at least every second while alive */
    double started;   /* Unix time */
    int32_t state;    /* enum engine_state */
    char error[256];  /* why it is not ready */
    /* what runs */
    char model_path[512], model_name[128], family[32], backend[16], device[128], strategy[32];
    char device_id[40]; /* of the GPU: backend_device.id; else empty */
    int32_t n_layer, n_ctx, n_vocab, n_slots, max_queue, block_tokens, n_blocks, max_rows;
    char speculate[12];       /* as engine_speculate_name; "off" also where it can't */
    char speculate_note[128]; /* why it can't, or why the draft model or next-token layer that was
                                 found is left out; else empty */
    char draft_model[128];    /* its name; else empty */
    uint64_t draft_host_bytes, draft_device_bytes; /* that it took, all in all */
    uint64_t
        mtp_host_bytes; /* the same of the model's own next-token layer; 0: it makes no drafts */
    char task[12];      /* engine_task_name */
    char pooling[8];    /* of embeddings: "mean", "cls", "last"; else empty */
    int32_t dimensions; /* of vectors; 0: there are none */
    int32_t n_threads;  /* of the processor that compute steps; 0: only the device does */
    uint64_t model_fingerprint;
    int32_t experts_per_token,
        trained_top_k; /* used, and as trained: using fewer is lossy; 0: no experts */
    int32_t n_attention, n_recurrent,
        n_unused_tensors; /* layers of each kind; tensors passed over */
    uint64_t kv_bytes_per_token, state_bytes_per_sequence; /* the former at 16 bits */
    struct status_part parts[STATUS_PARTS];
    uint64_t file_bytes, weight_bytes, dense_bytes, expert_bytes, active_bytes, parameters,
        active_parameters;
    char kv_type[8]; /* as stored: "f16", "f32", "q8", "k8v4" */
    uint64_t kv_stored_bytes_per_token;
    uint64_t kv_bytes, state_bytes, work_bytes;
    uint64_t recall_bytes; /* of earlier texts, looked up for drafts; in RAM */
    uint64_t device_bytes, host_bytes;
    char backend_note[192]; /* why a faster strategy, such as the GPU, was not taken for this model;
                               else empty */
    char plan[2048]; /* JSON object: what was planned before the load, with the keys of the ready
                        line */
    uint64_t loaded_weight_bytes; /* of weight_bytes, in memory: without experts on disk, with the
                                     cache's budget at start */
    uint64_t memory_available;    /* RAM that could be taken now without swapping, control groups
                                     included */
    uint64_t memory_pressure_shrinks; /* how often the expert cache shrank under memory pressure
                                         since the start */
    /* From /proc/self/status, each second: all, of it memory that no file backs, and pages of files
     * and of shared memory. By mincore, every few seconds: pages of the model's files in memory,
     * whoever brought them there. */
    uint64_t resident_bytes, anonymous_bytes, mapped_bytes, resident_weight_bytes;
    uint64_t disk_read_bytes;     /* from /proc/self/io, each second: what the block devices gave,
                                     O_DIRECT or for the page cache */
    double cpu_seconds;           /* of all threads since the start, each second */
    uint64_t locked_weight_bytes; /* locked in memory, beside experts.locked_bytes: dense weights,
                                     in cpu_only all */
    /* now */
    int32_t jobs_running, jobs_waiting, blocks_used, blocks_cached, connections;
    double decode_tokens_per_s, prefill_tokens_per_s; /* over the last 10 s of work */
    /* since start */
    uint64_t jobs_accepted, jobs_refused, jobs_done[OUTCOME__N];
    uint64_t jobs_lossy; /* of those that did not fail: used fewer experts per token than trained */
    uint64_t prompt_tokens, cached_tokens, prefill_tokens, completion_tokens;
    uint64_t steps, rows, weight_bytes_read, kv_bytes_read;
    uint64_t preemptions; /* of jobs that had a slot */
    uint64_t drafted_tokens,
        accepted_tokens;    /* drafts that steps verified, and those of them that came true */
    uint64_t draft_steps;   /* steps that verified drafts, summed over their jobs */
    uint64_t grammar_waits; /* jobs that sat a step out because their grammar's next tokens were not
                               known yet, summed over the steps */
    double step_seconds, idle_seconds;
    uint64_t prefix_queries, prefix_hits; /* in tokens asked for and tokens found */
    struct status_histogram time_to_first_token, time_per_output_token, queue_time, job_time;
    struct status_experts experts;
    /* Experts that a split backend keeps in RAM (hybrid): distinct ones of steps that were found on
     * the device and not, bytes of the latter read over the bus, bytes copied to the device for
     * later steps. */
    uint64_t expert_device_hits, expert_device_misses, expert_device_evictions, expert_bus_bytes,
        expert_copied_bytes;
    uint64_t expert_on_cpu; /* of the misses, computed by the processor: these crossed no bus */
    /* The prompt cache on disk (prompt_cache.h). Identity of this model's keys; 0: there is none,
     * or it turned itself off (cache_note). Bytes that it takes and may take on the disk, records.
     */
    uint64_t cache_identity, cache_disk_budget, cache_disk_bytes, cache_records;
    /* Since start: records stored, loaded (their tokens were not computed), not stored for lack of
     * room, found damaged or missing, and forgotten; bytes and time of reading and writing. */
    uint64_t cache_stored, cache_loaded, cache_refused, cache_damaged, cache_forgotten;
    uint64_t cache_read_bytes, cache_written_bytes;
    uint64_t cache_ram_budget, cache_ram_bytes; /* of copies in RAM; 0: there are none */
    double cache_read_seconds, cache_write_seconds;
    char cache_note[160]; /* why it is off, or stores nothing more; else empty */
    int32_t n_jobs;
    struct status_job jobs[STATUS_JOBS];
};

/* Jobs that ended without failing. */
static inline uint64_t status_jobs_succeeded(const uint64_t jobs_done[OUTCOME__N])
{
    uint64_t n = 0;
    for (int i = 0; i < OUTCOME_FAILED; i++)
        n += jobs_done[i];
    return n;
}

/* All that is locked. */
static inline uint64_t status_locked_bytes(const struct status_page *p)
{
    return p->locked_weight_bytes + p->experts.locked_bytes;
}

/* Writer */
struct status_writer;
/* File mode 0644; an old file is replaced, a living engine's is not (ERR_CONFLICT). */
struct status_writer *status_create(const char *path, struct err *e);
struct status_page *status_begin(struct status_writer *w); /* a private copy; keep it short */
void status_end(struct status_writer *w);                  /* sets the heartbeat and publishes */
void status_close(struct status_writer **w);               /* state becomes ENGINE_DOWN */
void status_histogram_init(struct status_histogram *h, double first, double factor);
void status_histogram_add(struct status_histogram *h, double value);

/* Reader: copies a consistent page. False: there is none (never started). When the process is gone
 * or its heartbeat is older than 5 s, *out is the last page with state ENGINE_DOWN and `error`
 * saying so. */
bool status_read(const char *path, struct status_page *out, struct err *e);
const char *engine_state_name(int32_t state);
