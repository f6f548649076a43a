/* The server's figures over time, for the admin's charts: one file of fixed size in the state
 * folder holds two rings of rows, 10 seconds each for 6 hours and 5 minutes each for 30 days. It
 * survives restarts; time in which nobody wrote is a gap.
 *
 * The recorder, whose lock makes it the only writer, adds a sample every second. Any process may
 * read; a seqlock keeps readers from rows that are half written. A power cut may lose or damage the
 * last rows and nothing else, which is acceptable for figures. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

#define HISTORY_FINE_S 10
#define HISTORY_FINE_ROWS 2160
#define HISTORY_COARSE_S 300
#define HISTORY_COARSE_ROWS 8640
#define HISTORY_BUCKETS 20
#define HISTORY_MAX_POINTS 480 /* rows of one answer at most: finer ones are put together */

/* Counters: what was added during a row's time. Those below HISTORY_ENGINE__N are the engine's and
 * restart with it. */
enum history_sum {
    HISTORY_PROMPT_TOKENS,
    HISTORY_CACHED_TOKENS,
    HISTORY_COMPLETION_TOKENS,
    HISTORY_JOBS_DONE,
    HISTORY_JOBS_FAILED,
    HISTORY_JOBS_REFUSED,
    HISTORY_EXPERT_ASKED, /* of the disk's cache and of the GPU's slots together */
    HISTORY_EXPERT_HITS,
    HISTORY_EXPERT_READ_BYTES,
    HISTORY_EXPERT_BUS_BYTES,
    HISTORY_STEP_MS,
    HISTORY_CPU_MS,     /* of all threads of the engine */
    HISTORY_DISK_BYTES, /* that the engine's process had read from storage, page faults of the
                           mapped model included */
    HISTORY_ENGINE__N,
    HISTORY_REQUESTS = HISTORY_ENGINE__N,
    HISTORY_ERRORS, /* of these, answered with 5xx: shared.h, http_errors */
    HISTORY_SUM__N
};

/* Gauges: the mean and the maximum over a row's time. */
enum history_gauge {
    HISTORY_UP, /* share of the time in which the engine was ready */
    HISTORY_RUNNING,
    HISTORY_WAITING,
    HISTORY_BLOCKS_USED,
    HISTORY_BLOCKS_CACHED,
    HISTORY_RESIDENT_BYTES, /* of the engine's process, in RAM */
    HISTORY_WEIGHT_BYTES,   /* of the model's file, in RAM */
    HISTORY_EXPERT_BYTES,   /* the cache of experts from disk */
    HISTORY_DEVICE_BYTES,
    HISTORY_AVAILABLE_BYTES, /* RAM that could be taken without swapping */
    HISTORY_HOST_CPU,        /* share of all processors that anyone kept busy */
    HISTORY_GAUGE__N
};

enum history_times { HISTORY_FIRST_TOKEN, HISTORY_PER_TOKEN, HISTORY_TIMES__N };

#define HISTORY_UNKNOWN UINT64_MAX /* a counter that could not be read this time */

/* What is known at one moment: counters since their beginning, not differences. */
struct history_sample {
    int64_t at_ms;         /* Unix */
    double engine_started; /* Unix s; names the engine's run. 0: there was none yet */
    bool engine_known;     /* the counters of the engine can be told; else only the rest is taken */
    uint64_t counters[HISTORY_SUM__N];
    double gauges[HISTORY_GAUGE__N];
    double bounds[HISTORY_TIMES__N][HISTORY_BUCKETS]; /* s; upper ends, the last one is infinite */
    uint64_t buckets[HISTORY_TIMES__N][HISTORY_BUCKETS];
};

struct history_row {
    int64_t at;       /* Unix s at which it begins; 0: a gap */
    double covered_s; /* of its time, how much was watched */
    uint64_t sums[HISTORY_SUM__N];
    double areas[HISTORY_GAUGE__N]; /* gauge times seconds; area / covered_s is the mean */
    double highest[HISTORY_GAUGE__N];
    uint32_t buckets[HISTORY_TIMES__N][HISTORY_BUCKETS];
};

/* Writer. Makes the file when it is missing or of another layout. */
struct history;
struct history *history_open(const char *path, struct err *e);
void history_add(struct history *h, const struct history_sample *s);
void history_close(struct history **h); /* accepts NULL */

/* Reader. */
struct history_view {
    int64_t from, step_s; /* row i begins at from + i * step_s */
    int n;
    struct history_row rows[HISTORY_MAX_POINTS];
    double bounds[HISTORY_TIMES__N][HISTORY_BUCKETS];
};
/* The rows of the last `seconds` before `now_s`, at most HISTORY_MAX_POINTS, fine ones where the
 * fine ring reaches. No file: all gaps. */
bool history_read(const char *path, int64_t now_s, int64_t seconds, struct history_view *out,
                  struct err *e);
/* The value under which share q (0..1) of the row's times lie, by the bucket's bounds; negative:
 * none. */
double history_quantile(const struct history_view *v, const struct history_row *row,
                        enum history_times which, double q);

extern const char *const history_sum_names[HISTORY_SUM__N],
    *const history_gauge_names[HISTORY_GAUGE__N];
