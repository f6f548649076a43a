/* Reads a buffer larger than the caches with all threads and keeps the best of some passes. The
 * buffer lies in huge pages where there are any, as weights do (file_map()): small ones cost up to
 * half of the rate in translations, and a bound taken from them would be below what products read.
 */
#include "engine/cpu/measure/bandwidth.h"

#include <stdint.h>
#include <sys/mman.h>

#include "engine/base/clock.h"

#define PROBE_BYTES ((size_t)128 << 20)
#define HUGE_PAGE ((size_t)2 << 20)
#define SMALL_PAGE ((size_t)4096)
#define PROBE_PASSES 5
#define LINE_WORDS 8

struct probe {
    uint64_t *data;
    int32_t n_threads;
    uint64_t sums[THREAD_POOL_MAX]; /* so that the reads can't be dropped */
};

static uint64_t *share_of(const struct probe *p, int32_t member, size_t *words)
{
    *words = PROBE_BYTES / sizeof *p->data / (size_t)p->n_threads;
    return p->data + (size_t)member * *words;
}

/* A page that nobody wrote to is one of zeros, which all others share. */
static void write_share(void *context, int32_t member)
{
    size_t words;
    uint64_t *at = share_of(context, member, &words);
    for (size_t i = 0; i < words; i += SMALL_PAGE / sizeof *at)
        at[i] = i;
}

/* One word of each cache line: the bus decides, not the adder. */
static void read_share(void *context, int32_t member)
{
    struct probe *p = context;
    size_t words;
    const uint64_t *at = share_of(p, member, &words);
    uint64_t sum[8] = {0};
    for (size_t i = 0; i + 8 * LINE_WORDS <= words; i += 8 * LINE_WORDS)
        for (size_t j = 0; j < 8; j++)
            sum[j] += at[i + j * LINE_WORDS];
    for (size_t j = 0; j < 8; j++)
        p->sums[member] += sum[j];
}

double bandwidth_measure(struct thread_pool *pool)
{
    struct probe p = {.n_threads = thread_pool_threads(pool)};
    const size_t mapped = PROBE_BYTES + HUGE_PAGE;
    char *memory = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    double best = 0;
    if (memory == MAP_FAILED)
        return 0;
    p.data = (uint64_t *)(void *)(memory + (-(uintptr_t)memory & (HUGE_PAGE - 1)));
    madvise(p.data, PROBE_BYTES, MADV_HUGEPAGE);
    thread_pool_run(pool, false, write_share, &p);
    for (int i = 0; i < PROBE_PASSES; i++) {
        uint64_t began = clock_ns();
        thread_pool_run(pool, false, read_share, &p);
        uint64_t ns = clock_ns() - began;
        double rate = (double)PROBE_BYTES * 1e9 / (double)(ns ? ns : 1);
        best = rate > best ? rate : best;
    }
    munmap(memory, mapped);
    return best;
}
