/* Reads a buffer part by part with all threads and keeps the best part's rate. Each part is read
 * once: of a buffer four times as large as the last cache, a quarter would come from that cache the
 * second time. The buffer lies in huge pages where there are any, as weights do (file_map()): with
 * small ones address translation costs up to half of the rate, and the bound would be below what
 * products read. */
#include "engine/cpu/measure/bandwidth.h"

#include <stdint.h>
#include <sys/mman.h>

#include "engine/base/clock.h"

#define PROBE_PARTS 5 /* the last is not read: a cache of up to its size has what came last */
#define PROBE_PART ((size_t)64 << 20)
#define PROBE_BYTES (PROBE_PARTS * PROBE_PART)
#define HUGE_PAGE ((size_t)2 << 20)
#define SMALL_PAGE ((size_t)4096)

struct probe {
    uint64_t *data;
    int32_t n_threads, part;
    uint64_t sums[THREAD_POOL_MAX]; /* so that the reads can't be dropped */
};

/* A member's share of all parts lies together: what it wrote last is in its last one. */
static uint64_t *share_of(const struct probe *p, int32_t member, int32_t part, size_t *words)
{
    *words = PROBE_PART / sizeof *p->data / (size_t)p->n_threads;
    return p->data + ((size_t)member * PROBE_PARTS + (size_t)part) * *words;
}

/* Pages that nobody wrote to are all the same page of zeros. */
static void write_share(void *context, int32_t member)
{
    for (int32_t part = 0; part < PROBE_PARTS; part++) {
        size_t words;
        uint64_t *at = share_of(context, member, part, &words);
        for (size_t i = 0; i < words; i += SMALL_PAGE / sizeof *at)
            at[i] = i;
    }
}

/* Every word, as products do: reading only one of each line, the rate is an eighth higher. */
static void read_share(void *context, int32_t member)
{
    struct probe *p = context;
    size_t words;
    const uint64_t *at = share_of(p, member, p->part, &words);
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (size_t i = 0; i + 8 <= words; i += 8) {
        a ^= at[i] ^ at[i + 4];
        b ^= at[i + 1] ^ at[i + 5];
        c ^= at[i + 2] ^ at[i + 6];
        d ^= at[i + 3] ^ at[i + 7];
    }
    p->sums[member] += a ^ b ^ c ^ d;
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
    for (p.part = 0; p.part < PROBE_PARTS - 1; p.part++) {
        uint64_t began = clock_ns();
        thread_pool_run(pool, false, read_share, &p);
        uint64_t ns = clock_ns() - began;
        double rate = (double)PROBE_PART * 1e9 / (double)(ns ? ns : 1);
        best = rate > best ? rate : best;
    }
    munmap(memory, mapped);
    return best;
}
