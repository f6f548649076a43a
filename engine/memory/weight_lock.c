/* Collects the page ranges of all weights, merges those that touch, and locks them in chunks
 * while the next chunk is read ahead. */
#include "engine/memory/weight_lock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LOG_MODULE "memory"
#include "engine/base/clock.h"
#include "engine/base/log.h"

#define CHUNK ((uintptr_t)64 << 20) /* locked at a time, while the next chunk is read ahead */

/* --- ranges --- */

struct collector {
    struct weight_lock *to;
    uintptr_t page; /* bytes of one */
    bool failed;
};

static void add_range(struct collector *c, const uint8_t *from, size_t bytes)
{
    struct weight_lock *l = c->to;
    if (!from || !bytes || c->failed)
        return;
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 1024;
        struct weight_range *more = realloc(l->ranges, cap * sizeof *more);
        c->failed = !more;
        if (!more)
            return;
        l->ranges = more;
        l->cap = cap;
    }
    uintptr_t start = (uintptr_t)from & ~(c->page - 1),
              end = ((uintptr_t)from + bytes + c->page - 1) & ~(c->page - 1);
    struct weight_range *last = l->n ? &l->ranges[l->n - 1] : NULL;
    if (last && start >= last->start && start <= last->end) /* tensors are mostly adjacent */
        last->end = end > last->end ? end : last->end;
    else
        l->ranges[l->n++] = (struct weight_range){start, end};
}

/* Bytes from the first row of a plane to the end of its last one. Gaps between rows hold rows of a
 * fused neighbour. */
static size_t plane_bytes(const struct weight *w, int32_t n, size_t matrix_stride,
                          size_t row_stride, size_t row)
{
    return row ? (size_t)(n - 1) * matrix_stride + (size_t)(w->rows - 1) * row_stride + row : 0;
}

static void add(struct collector *c, const struct weight *w)
{
    if (w->type == WEIGHT_NONE)
        return;
    const int32_t each = w->table ? 1 : w->n_matrix; /* matrices that are contiguous */
    const size_t data = plane_bytes(w, each, w->matrix_bytes, w->row_bytes, weight_row_size(w));
    const size_t scales =
        plane_bytes(w, each, w->scale_matrix_bytes, w->scale_row_bytes, weight_scale_row_size(w));
    for (int32_t i = 0; i < w->n_matrix; i += each) {
        struct weight_planes p = weight_planes(w, i);
        add_range(c, p.data, data);
        add_range(c, p.scales, scales);
        add_range(c, p.biases, scales);
    }
}

static void add_mlp(struct collector *c, const struct mlp_plan *m)
{
    add(c, &m->gate);
    add(c, &m->up);
    add(c, &m->down);
}

static void add_layer(struct collector *c, const struct layer_plan *l)
{
    const struct attention_plan *a = &l->attention;
    const struct delta_net_plan *d = &l->delta_net;
    const struct weight *all[] = {
        &a->wq,     &a->wk,      &a->wv,    &a->wo,         &d->w_qkv,           &d->w_z,
        &d->w_a,    &d->w_b,     &d->w_out, &l->moe.router, &l->moe.shared_gate, &l->moe.gate,
        &l->moe.up, &l->moe.down};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        add(c, all[i]);
    add_mlp(c, &l->dense);
    add_mlp(c, &l->moe.shared);
}

static int by_start(const void *a, const void *b)
{
    const struct weight_range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Sorts the ranges and merges those that touch. */
static void merge(struct weight_lock *l)
{
    size_t n = 0;
    if (l->n)
        qsort(l->ranges, l->n, sizeof *l->ranges, by_start);
    for (size_t i = 0; i < l->n; i++) {
        struct weight_range *last = n ? &l->ranges[n - 1] : NULL;
        if (last && l->ranges[i].start <= last->end)
            last->end = l->ranges[i].end > last->end ? l->ranges[i].end : last->end;
        else
            l->ranges[n++] = l->ranges[i];
    }
    l->n = n;
    for (size_t i = 0; i < n; i++)
        l->bytes += l->ranges[i].end - l->ranges[i].start;
}

static bool collect(struct weight_lock *l, const struct model_plan *plan)
{
    struct collector c = {.to = l, .page = (uintptr_t)sysconf(_SC_PAGESIZE)};
    if (!plan->shares_ends) {
        add(&c, &plan->embed);
        add(&c, &plan->head);
    }
    add(&c, &plan->joint.fc);
    add(&c, &plan->context.fc);
    add(&c, &plan->embedding.positions);
    add(&c, &plan->embedding.types);
    add(&c, &plan->scorer.dense);
    add(&c, &plan->scorer.out);
    for (int32_t i = 0; i < plan->n_layer; i++)
        add_layer(&c, &plan->layers[i]);
    merge(l);
    return !c.failed;
}

/* --- locking --- */

static uintptr_t chunk_end(const struct weight_range *r, uintptr_t at)
{
    return r->end - at > CHUNK ? at + CHUNK : r->end;
}

/* 0: the whole range is locked; otherwise errno. What was locked before the failure stays locked.
 */
static int lock_range(struct weight_lock *l, const struct weight_range *r)
{
    for (uintptr_t at = r->start, end; at < r->end; at = end) {
        end = chunk_end(r, at);
        if (end < r->end)
            madvise((void *)end, chunk_end(r, end) - end, MADV_WILLNEED);
        if (mlock((const void *)at, end - at) != 0) {
            int error = errno;
            munlock((const void *)at,
                    end - at); /* pages locked before the failure are not counted */
            return error;
        }
        l->locked += end - at;
    }
    return 0;
}

void weight_lock_init(struct weight_lock *l, const struct model_plan *plan)
{
    const uint64_t began = clock_ns();
    int error = 0;
    *l = (struct weight_lock){0};
    if (!collect(l, plan))
        error = ENOMEM;
    for (size_t i = 0; i < l->n && !error; i++)
        error = lock_range(l, &l->ranges[i]);
    if (error)
        log_warn("weights are not all locked, the kernel may drop or swap others when memory is "
                 "short: locked=%" PRIu64 " of=%" PRIu64
                 ": %s; a higher limit of locked memory (ulimit -l, LimitMEMLOCK) mends it",
                 l->locked, l->bytes, strerror(error));
    else
        log_info("weights are locked in memory bytes=%" PRIu64 " ms=%.0f", l->locked,
                 (double)(clock_ns() - began) * 1e-6);
}

void weight_lock_fini(struct weight_lock *l)
{
    uint64_t rest = l->locked;
    for (size_t i = 0; i < l->n && rest; i++) {
        uint64_t bytes = l->ranges[i].end - l->ranges[i].start;
        bytes = bytes < rest ? bytes : rest;
        munlock((const void *)l->ranges[i].start, bytes);
        rest -= bytes;
    }
    free(l->ranges);
    *l = (struct weight_lock){0};
}
