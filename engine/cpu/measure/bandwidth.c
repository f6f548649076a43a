/* Reads a buffer larger than the caches with all threads and keeps the best of some passes. */
#include "engine/cpu/measure/bandwidth.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"

#define PROBE_BYTES ((size_t)256 << 20)
#define PROBE_PASSES 5
#define LINE_WORDS 8

struct probe {
    const uint64_t *data;
    int32_t n_threads;
    uint64_t sums[256]; /* so that the reads can't be dropped */
};

/* One word of each cache line: the bus decides, not the adder. */
static void read_share(void *context, int32_t member)
{
    struct probe *p = context;
    size_t words = PROBE_BYTES / sizeof *p->data, share = words / (size_t)p->n_threads;
    const uint64_t *at = p->data + (size_t)member * share;
    uint64_t sum[8] = {0};
    for (size_t i = 0; i + 8 * LINE_WORDS <= share; i += 8 * LINE_WORDS)
        for (size_t j = 0; j < 8; j++)
            sum[j] += at[i + j * LINE_WORDS];
    for (size_t j = 0; j < 8; j++)
        p->sums[member] += sum[j];
}

double bandwidth_measure(struct thread_pool *pool)
{
    struct probe p = {.n_threads = thread_pool_threads(pool)};
    void *memory = malloc(PROBE_BYTES);
    double best = 0;
    if (!memory)
        return 0;
    memset(memory, 1, PROBE_BYTES);
    p.data = memory;
    for (int i = 0; i < PROBE_PASSES; i++) {
        uint64_t began = clock_ns();
        thread_pool_run(pool, false, read_share, &p);
        uint64_t ns = clock_ns() - began;
        double rate = (double)PROBE_BYTES * 1e9 / (double)(ns ? ns : 1);
        best = rate > best ? rate : best;
    }
    free(memory);
    return best;
}
