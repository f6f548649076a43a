/* See speed.h. The plan's own formats and shapes over memory that holds any values: time does not
 * depend on them. */
#include "engine/cpu/measure/speed.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/thread_pool.h"
#include "engine/cpu/interleave/interleave.h"
#include "engine/cpu/kernels/kernels.h"

#define PROBE_BYTES ((size_t)128 << 20)
#define PROBE_NS 15000000 /* of one format; best of PROBE_PASSES */
#define PROBE_PASSES 2
#define MAX_FORMATS 6
#define BARRIERS_PER_LAYER 7
#define N_BARRIERS 256

struct format {         /* matrices of one type and width, as one token reads them */
    struct weight like; /* the heaviest */
    double bytes, heaviest;
};

struct formats {
    struct format at[MAX_FORMATS];
    int n;
};

static void add(struct formats *f, const struct weight *w, int32_t n)
{
    if (w->type == WEIGHT_NONE || !w->rows)
        return;
    double bytes = (double)weight_matrix_bytes(w) * n;
    int i = 0;
    while (i < f->n && !(f->at[i].like.type == w->type && f->at[i].like.bits == w->bits &&
                         f->at[i].like.group == w->group))
        i++;
    if (i == MAX_FORMATS)
        i--; /* rare ones count with the last */
    else if (i == f->n)
        f->n++;
    struct format *at = &f->at[i];
    at->bytes += bytes;
    if (bytes > at->heaviest) {
        at->heaviest = bytes;
        at->like = *w;
    }
}

static void add_mlp(struct formats *f, const struct mlp_plan *m)
{
    add(f, &m->gate, 1);
    add(f, &m->up, 1);
    add(f, &m->down, 1);
}

static void add_layer(struct formats *dense, struct formats *experts, const struct layer_plan *l)
{
    const struct attention_plan *a = &l->attention;
    const struct delta_net_plan *d = &l->delta_net;
    const struct weight *mixer[] = {&a->wq,  &a->wk,  &a->wv,  &a->wo,   &d->w_qkv,
                                    &d->w_z, &d->w_a, &d->w_b, &d->w_out};
    for (size_t i = 0; i < sizeof mixer / sizeof *mixer; i++)
        add(dense, mixer[i], 1);
    if (l->ffn == FFN_DENSE) {
        add_mlp(dense, &l->dense);
        return;
    }
    add(dense, &l->moe.router, 1);
    if (l->moe.has_shared)
        add_mlp(dense, &l->moe.shared);
    add(experts, &l->moe.gate, l->moe.n_used);
    add(experts, &l->moe.up, l->moe.n_used);
    add(experts, &l->moe.down, l->moe.n_used);
}

struct probe {
    const struct kernels *kernels;
    struct weight weight; /* n_matrix copies in memory */
    struct panel panel;
    bool one_byte;               /* activations have one */
    bool interleaves;            /* weights that kernels read so lie sixteen rows side by side */
    bool single;                 /* one thread: what a busy machine makes of it, see tempo.h */
    int32_t n_threads, matrix;   /* matrix: where the next pass begins */
    int32_t n_passed;            /* matrices of one run */
    float sums[THREAD_POOL_MAX]; /* so that the work can't be dropped */
};

/* Each member takes its share of every matrix's tiles. */
static void walk(void *context, int32_t member)
{
    struct probe *p = context;
    float acc[KERNEL_MAX_TILE_ROWS * KERNEL_MAX_LANES] __attribute__((aligned(64)));
    int32_t lanes = p->kernels->lanes, tiles = (p->weight.rows + lanes - 1) / lanes, from, to;
    thread_pool_equal_share(tiles, member, p->n_threads, &from, &to);
    for (int32_t i = 0; i < p->n_passed; i++)
        for (int32_t t = from; t < to; t++) {
            p->kernels->tile(&(struct tile){.weight = &p->weight,
                                            .matrix = (p->matrix + i) % p->weight.n_matrix,
                                            .row = t * lanes,
                                            .panel = &p->panel,
                                            .n = 1},
                             false, acc);
            p->sums[member] += acc[0];
        }
}

static size_t round_up(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

/* As many matrices of this format as `bytes` hold. */
static void place(struct weight *w, char *memory, size_t bytes)
{
    size_t data = round_up(weight_row_size(w) * (size_t)w->rows),
           scales = round_up(weight_scale_row_size(w) * (size_t)w->rows);
    size_t one = data + scales + (w->biases ? scales : 0);
    w->n_matrix = (int32_t)(bytes / one ? bytes / one : 1);
    w->row_bytes = weight_row_size(w);
    w->scale_row_bytes = weight_scale_row_size(w);
    w->matrix_bytes = w->scale_matrix_bytes = one;
    w->data = memory;
    w->scales = scales ? memory + data : NULL;
    w->biases = w->biases ? memory + data + scales : NULL;
    w->table = NULL;
}

/* Bytes per second of one format. */
static double time_format(struct probe *p, struct thread_pool *pool, const struct weight *like,
                          char *memory, size_t bytes)
{
    p->weight = *like;
    if (like->table) /* which planes there are */
        p->weight.biases = like->table[0].biases;
    if (like->rows > 16384)
        p->weight.rows = 16384; /* of a head: enough */
    place(&p->weight, memory, bytes);
    p->weight.interleaved =
        p->interleaves && interleave_fits(&p->weight) && p->kernels->reads_interleaved(&p->weight);
    const unsigned kinds = kernels_panel_kinds(p->kernels, &p->weight, false, p->one_byte);
    void *panel = aligned_alloc(64, round_up(panel_bytes(1, p->weight.cols, kinds)));
    float *x = calloc((size_t)p->weight.cols + PANEL_BLOCK, sizeof *x);
    double best = 0;
    if (panel && x) {
        for (int32_t i = 0; i < p->weight.cols; i++)
            x[i] = (float)(i % 17 - 8) / 8;
        panel_place(&p->panel, 1, p->weight.cols, kinds, panel);
        p->kernels->pack(&p->panel, 0, x);
        p->n_passed = p->weight.n_matrix < 8 ? p->weight.n_matrix : 8;
        for (int pass = 0; pass < PROBE_PASSES; pass++) {
            uint64_t began = clock_ns(), ns = 0, runs = 0;
            do {
                thread_pool_run(pool, p->single, walk, p);
                p->matrix = (p->matrix + p->n_passed) % p->weight.n_matrix;
                runs++;
            } while ((ns = clock_ns() - began) < PROBE_NS);
            double rate = (double)weight_matrix_bytes(&p->weight) * p->n_passed * (double)runs *
                          1e9 / (double)ns;
            best = rate > best ? rate : best;
        }
    }
    free(panel);
    free(x);
    return best;
}

static double time_formats(struct probe *p, struct thread_pool *pool, const struct formats *f,
                           char *memory, size_t bytes)
{
    double sum = 0, seconds = 0;
    for (int i = 0; i < f->n; i++) {
        double rate = time_format(p, pool, &f->at[i].like, memory, bytes);
        sum += f->at[i].bytes;
        seconds += rate > 0 ? f->at[i].bytes / rate : 0;
    }
    return seconds > 0 ? sum / seconds : 0;
}

static void pass_barriers(void *pool, int32_t member)
{
    for (int i = 0; i < N_BARRIERS; i++)
        thread_pool_barrier(pool);
}

static double time_layer(struct thread_pool *pool)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 3; i++) {
        uint64_t began = clock_ns();
        thread_pool_run(pool, false, pass_barriers, pool);
        uint64_t ns = clock_ns() - began;
        best = ns < best ? ns : best;
    }
    return (double)best * 1e-9 / N_BARRIERS * BARRIERS_PER_LAYER;
}

static double sum_bytes(const struct formats *f)
{
    double sum = 0;
    for (int i = 0; i < f->n; i++)
        sum += f->at[i].bytes;
    return sum;
}

/* Room for one matrix of each format, and as much as one token reads where that is less than
 * PROBE_BYTES: what a small model leaves in the processor's caches it is also read from there. */
static size_t probe_room(const struct formats *dense, const struct formats *experts)
{
    double all = sum_bytes(dense) + sum_bytes(experts);
    size_t room = all < (double)PROBE_BYTES ? (size_t)all : PROBE_BYTES;
    for (int i = 0; i < dense->n + experts->n; i++) {
        const struct format *f = i < dense->n ? &dense->at[i] : &experts->at[i - dense->n];
        size_t one = weight_matrix_bytes(&f->like) + 256;
        room = one > room ? one : room;
    }
    return round_up(room);
}

struct found {
    struct backend_speed speed;
    double token_s; /* a token's time by it */
};

static struct found time_all(struct probe *p, struct thread_pool *pool, const struct formats *dense,
                             const struct formats *experts, char *memory, size_t room,
                             int32_t n_layer)
{
    struct found f = {0};
    p->n_threads = p->single ? 1 : thread_pool_threads(pool);
    f.speed.dense = time_formats(p, pool, dense, memory, room);
    f.speed.experts = time_formats(p, pool, experts, memory, room);
    f.speed.layer_s = p->single ? 0 : time_layer(pool);
    f.token_s = n_layer * f.speed.layer_s +
                (f.speed.dense > 0 ? sum_bytes(dense) / f.speed.dense : 0) +
                (f.speed.experts > 0 ? sum_bytes(experts) / f.speed.experts : 0);
    return f;
}

bool speed_measure(const struct model_plan *plan, const struct backend_params *params,
                   struct backend_speed *s, struct err *e)
{
    struct formats dense = {0}, experts = {0};
    for (int32_t i = 0; i < plan->n_layer; i++)
        add_layer(&dense, &experts, &plan->layers[i]);
    add(&dense, &plan->head, 1);
    size_t room = probe_room(&dense, &experts);
    char *memory = aligned_alloc(64, room);
    struct probe *p = calloc(1, sizeof *p);
    struct thread_pool *pool = memory && p ? thread_pool_create(params->n_threads, e) : NULL;
    bool ok = pool != NULL;
    if (!memory || !p)
        err_set(e, ERR_NOMEM, "no memory for a probe of %zu bytes", room);
    if (ok) {
        memset(memory, 0x3c, room); /* small finite values in every format */
        p->kernels = kernels_best();
        p->one_byte = params->one_byte;
        p->interleaves =
            params->one_byte && !params->exact && !params->streams && p->kernels->reads_interleaved;
        struct found best = time_all(p, pool, &dense, &experts, memory, room, plan->n_layer);
        p->single = true;
        struct found one = thread_pool_threads(pool) > 1
                               ? time_all(p, pool, &dense, &experts, memory, room, plan->n_layer)
                               : best;
        *s = one.token_s < best.token_s ? one.speed : best.speed;
        s->memory = s->dense > s->experts
                        ? s->dense
                        : s->experts; /* KV is read at the kernels' pace as well */
    }
    thread_pool_destroy(&pool);
    free(memory);
    free(p);
    return ok;
}
