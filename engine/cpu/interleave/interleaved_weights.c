/* Collects the weights that are to be copied, maps memory for all of them, and copies one after the
 * other, each with all threads, while the next is read ahead. */
#include "engine/cpu/interleave/interleaved_weights.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LOG_MODULE "cpu"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/cpu/interleave/interleave.h"
#include "engine/model/plan_weights.h"

#define LAYER_MATRICES 20               /* at most */
#define OTHER_MATRICES 3                /* head, and what a drafter begins with */
#define HUGE_PAGE ((size_t)2 << 20)     /* where the copies begin */
#define PIECE_BYTES ((size_t)256 << 10) /* that a thread copies at a time */
#define ALIGNED(n) (((n) + 63) & ~(size_t)63)

struct interleaved_weights {
    struct model_plan plan; /* with layers of its own */
    uint8_t *memory;
    size_t bytes; /* mapped */
};

/* --- which --- */

struct collector {
    bool (*reads)(const struct weight *w);
    struct weight **found; /* of the own plan */
    size_t n, bytes;       /* bytes: of the copies */
};

static size_t copy_bytes(const struct weight *w)
{
    return weight_matrix_bytes(w) * (size_t)w->n_matrix;
}

static bool is_wanted(bool (*reads)(const struct weight *w), const struct weight *w)
{
    return interleave_fits(w) && reads(w);
}

static void add(struct collector *c, struct weight *w)
{
    if (!is_wanted(c->reads, w))
        return;
    c->found[c->n++] = w;
    c->bytes += ALIGNED(copy_bytes(w));
}

static void add_mlp(struct collector *c, struct mlp_plan *m)
{
    add(c, &m->gate);
    add(c, &m->up);
    add(c, &m->down);
}

/* A layer has either mixer and either feed-forward; the other's weights are absent. */
static void add_layer(struct collector *c, struct layer_plan *l)
{
    struct attention_plan *a = &l->attention;
    struct delta_net_plan *d = &l->delta_net;
    struct moe_plan *m = &l->moe;
    struct weight *all[] = {&a->wq,  &a->wk,  &a->wv,    &a->wo,   &d->w_qkv, &d->w_z,
                            &d->w_a, &d->w_b, &d->w_out, &m->gate, &m->up,    &m->down};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        add(c, all[i]);
    add_mlp(c, &l->dense);
    add_mlp(c, &m->shared);
}

static void collect(struct collector *c, struct model_plan *plan)
{
    add(c, &plan->joint.fc);
    add(c, &plan->context.fc);
    for (int32_t i = 0; i < plan->n_layer; i++)
        add_layer(c, &plan->layers[i]);
    /* A drafter's is as its owner has it; the table of embeddings is read row by row. */
    if (!plan->shares_ends && plan->head.data != plan->embed.data)
        add(c, &plan->head);
}

/* --- where they come from --- */

/* Matrices that lie in one run, and its bytes. Of rows with gaps, which hold a neighbour's, each
 * matrix is one. */
static int32_t run_of(const struct weight *w, size_t *bytes)
{
    const size_t one = (size_t)w->rows * w->row_bytes;
    const bool together = !w->table && w->matrix_bytes == one;
    *bytes = together ? one * (size_t)w->n_matrix : one - w->row_bytes + weight_row_size(w);
    return together ? w->n_matrix : 1;
}

/* Starts reading in large pieces, instead of page by page as the copy proceeds. */
static void read_ahead(const struct weight *w)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    size_t bytes;
    const int32_t each = run_of(w, &bytes);
    for (int32_t i = 0; i < w->n_matrix; i += each) {
        const uintptr_t at = (uintptr_t)weight_planes(w, i).data, first = at & ~(page - 1);
        madvise((void *)first, at + bytes - first, MADV_WILLNEED);
    }
}

/* The pages that nothing else reads. */
static void drop(const struct model *m, const struct weight *w)
{
    size_t bytes;
    const int32_t each = run_of(w, &bytes);
    if (!m || w->row_bytes != weight_row_size(w))
        return;
    for (int32_t i = 0; i < w->n_matrix; i += each)
        model_drop(m, weight_planes(w, i).data, bytes);
}

/* --- copies --- */

struct copy {
    const struct weight *from;
    uint8_t *to;
    size_t group_bytes;              /* of sixteen rows */
    int32_t each, groups, in_matrix; /* groups of a piece, of all, of a matrix */
};

static void copy_piece(void *context, int32_t piece)
{
    const struct copy *c = context;
    const int32_t first = piece * c->each,
                  end = c->groups - first < c->each ? c->groups : first + c->each;
    for (int32_t i = first; i < end; i++)
        interleave_rows(c->from, i / c->in_matrix, i % c->in_matrix * INTERLEAVE_ROWS,
                        c->to + (size_t)i * c->group_bytes);
}

/* The own plan's weight: it becomes the copy. */
static void copy_weight(struct thread_pool *pool, struct weight *w, uint8_t *to)
{
    struct copy c = {.from = w,
                     .to = to,
                     .group_bytes = INTERLEAVE_ROWS * weight_row_size(w),
                     .in_matrix = w->rows / INTERLEAVE_ROWS};
    c.groups = c.in_matrix * w->n_matrix;
    c.each = (int32_t)(PIECE_BYTES / c.group_bytes) + 1;
    thread_pool_each(pool, (c.groups + c.each - 1) / c.each, copy_piece, &c);
    w->data = to;
    w->table = NULL;
    w->row_bytes = weight_row_size(w);
    w->matrix_bytes = (size_t)w->rows * w->row_bytes;
    w->interleaved = true;
}

static void copy_all(struct interleaved_weights *i, const struct interleaved_weights_params *p,
                     const struct collector *c, struct thread_pool *pool)
{
    const uintptr_t start = ((uintptr_t)i->memory + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
    uint8_t *to = i->memory + (start - (uintptr_t)i->memory);
    read_ahead(c->found[0]);
    for (size_t k = 0; k < c->n; k++) {
        struct weight *w = c->found[k];
        const struct weight from = *w;
        if (k + 1 < c->n)
            read_ahead(c->found[k + 1]);
        copy_weight(pool, w, to);
        to += ALIGNED(copy_bytes(w));
        drop(p->model, &from);
    }
    mprotect(i->memory, i->bytes, PROT_READ);
}

static bool map(struct interleaved_weights *i, size_t bytes)
{
    void *memory =
        mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    i->memory = memory;
    i->bytes = bytes + HUGE_PAGE;
    madvise(memory, i->bytes, MADV_HUGEPAGE);
    return true;
}

/* True: whatever is to be copied was; the plan is as it was where that is nothing. */
static bool build(struct interleaved_weights *i, const struct interleaved_weights_params *p,
                  struct collector *c)
{
    const uint64_t began = clock_ns();
    const size_t layers = (size_t)p->plan->n_layer * sizeof *p->plan->layers;
    struct thread_pool *own = NULL;
    struct err e = {0};
    i->plan = *p->plan;
    i->plan.layers = malloc(layers);
    c->found =
        malloc(((size_t)p->plan->n_layer * LAYER_MATRICES + OTHER_MATRICES) * sizeof *c->found);
    if (!i->plan.layers || !c->found)
        return false;
    memcpy(i->plan.layers, p->plan->layers, layers);
    collect(c, &i->plan);
    if (!c->n)
        return true;
    if (!map(i, c->bytes) || !(p->team || (own = thread_pool_create(p->n_threads, &e))))
        return false;
    copy_all(i, p, c, p->team ? p->team : own);
    thread_pool_destroy(&own);
    log_info("weights are interleaved for the %s kernels bytes=%zu ms=%.0f", p->kernels, c->bytes,
             (double)(clock_ns() - began) * 1e-6);
    return true;
}

struct interleaved_weights *interleaved_weights_open(const struct interleaved_weights_params *p)
{
    struct interleaved_weights *i = calloc(1, sizeof *i);
    struct collector c = {.reads = p->reads};
    const bool built = i && build(i, p, &c);
    free(c.found);
    if (!built)
        log_warn("weights stay as they lie in the file, which is slower: no memory to interleave "
                 "them bytes=%zu",
                 c.bytes);
    if (!built || !c.n)
        interleaved_weights_close(&i);
    return i;
}

const struct model_plan *interleaved_weights_plan(const struct interleaved_weights *i)
{
    return &i->plan;
}

void interleaved_weights_close(struct interleaved_weights **pi)
{
    struct interleaved_weights *i = *pi;
    *pi = NULL;
    if (!i)
        return;
    if (i->memory)
        munmap(i->memory, i->bytes);
    free(i->plan.layers);
    free(i);
}

/* --- what a plan has --- */

static bool is_plain(void *context, const struct weight *w, bool is_expert, int32_t n_used)
{
    return !w->interleaved;
}

bool interleaved_weights_any(const struct model_plan *plan)
{
    return plan->head.interleaved || !plan_each_weight(plan, is_plain, NULL);
}
