/* Times the repacking of experts on matrices of the layer's shape, large enough together to defeat
 * the caches. */
#include "engine/vulkan/measure/repack_bandwidth.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/median.h"
#include "engine/base/thread_pool.h"
#include "engine/vulkan/weights/device_layout.h"

#define SLICES 8                 /* of a matrix, by several threads */
#define BYTES ((size_t)64 << 20) /* past the processor's caches */
#define LEAST_RUNS 5
#define MOST_RUNS 64

struct unpacking { /* one matrix */
    struct weight w;
    struct device_layout layout;
    uint8_t *to;
};

static void unpack(void *context, int share)
{
    const struct unpacking *u = context;
    const int64_t rows = u->w.rows, from = rows * share / SLICES, to = rows * (share + 1) / SLICES;
    uint8_t *out = u->to;
    for (int plane = 0; plane < DEVICE_PLANES; plane++) {
        const uint32_t row_bytes = u->layout.row_bytes[plane];
        if (row_bytes) {
            device_layout_rows(&u->w, &u->layout,
                               &(struct device_rows){.plane = plane, .first = from, .n = to - from},
                               out + (size_t)from * row_bytes);
        }
        out += (size_t)rows * row_bytes;
    }
}

/* Unpacks each matrix from memory of its own into memory of its own, so that no cache helps.
 * Returns the median of the seconds. */
static double time_matrices(struct thread_pool *workers, struct unpacking *u, uint8_t *from,
                            size_t from_bytes, uint8_t *to, size_t to_bytes, size_t n)
{
    double runs[MOST_RUNS];
    memset(from, 0, from_bytes * n); /* pages that are there */
    memset(to, 0, to_bytes * n);
    for (size_t i = 0; i < n; i++) {
        uint64_t began = clock_ns();
        u->w.data = from + from_bytes * i;
        u->to = to + to_bytes * i;
        thread_pool_each(workers, SLICES, unpack, u);
        runs[i] = (double)(clock_ns() - began) * 1e-9;
    }
    return median_of(runs, n);
}

/* Scales and biases in tensors of their own are few bytes and are not copied. Seconds for a matrix;
 * 0: *e. */
static double time_matrix(struct gpu *g, struct thread_pool *workers, const struct weight *w,
                          struct err *e)
{
    struct unpacking u = {.w = *w};
    struct gpu_buffer host = {0};
    size_t to_bytes = 0;
    double seconds = 0;
    if (!device_layout_of(w, &u.layout, e))
        return 0;
    device_layout_keep_codes(&u.layout); /* as split experts have them */
    for (int plane = 0; plane < DEVICE_PLANES; plane++)
        to_bytes += (size_t)u.layout.row_bytes[plane] * (size_t)w->rows;
    u.w.row_bytes = weight_row_size(w);
    const size_t from_bytes = u.w.row_bytes * (size_t)w->rows, fit = BYTES / to_bytes,
                 n = fit < LEAST_RUNS  ? LEAST_RUNS
                     : fit < MOST_RUNS ? fit
                                       : MOST_RUNS;
    uint8_t *from = malloc(from_bytes * n);
    if (!from) {
        err_set(e, ERR_NOMEM, "no memory for a probe of %zu bytes", from_bytes * n);
    } else if (gpu_buffer_create(g,
                                 &(struct gpu_buffer_params){.where = GPU_UPLOAD,
                                                             .size = to_bytes * n,
                                                             .name = "probe of unpacking"},
                                 &host, e)) {
        seconds = time_matrices(workers, &u, from, from_bytes, host.map, to_bytes, n);
    }
    gpu_buffer_destroy(g, &host);
    free(from);
    return seconds;
}

double repack_bandwidth(struct gpu *g, const struct moe_plan *m, struct err *e)
{
    struct thread_pool *workers = thread_pool_create_copiers(e);
    if (!workers)
        return 0;
    double gate = time_matrix(g, workers, &m->gate, e),
           down = gate > 0 ? time_matrix(g, workers, &m->down, e) : 0;
    thread_pool_destroy(&workers);
    return down > 0 ? (double)(2 * weight_matrix_bytes(&m->gate) + weight_matrix_bytes(&m->down)) /
                          (2 * gate + down)
                    : 0; /* up is like gate */
}
