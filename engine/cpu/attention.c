/* Attention over paged keys and values: projections, norms and rotation, storing, softmax, gate,
 * projection. */
#include <math.h>

#include "engine/cpu/kernels/kv_layout.h"
#include "engine/cpu/matmul.h"
#include "engine/cpu/mixer.h"
#include "engine/cpu/rope.h"
#include "engine/cpu/wanted_rows.h"

/* Bytes of weights, or of keys and values, for each thread and counted for each row, up to which it
 * takes kv heads of its own: some fifty microseconds of work, in which no thread falls far behind.
 */
#define OWN_HEAD_BYTES (1 << 20)

/* Floats of one head in b->q: its gate follows the query. */
static int32_t query_stride(const struct attention_plan *a)
{
    return a->d_head * (a->output_gate ? 2 : 1);
}

/* Tells which kv heads' rows of each product a thread computes: those that it attends. */
struct head_share {
    int32_t from, to;
};

/* Of queries, keys and values, those that are projected at a time. */
struct projections {
    int from, to;
};
static const struct projections all_three = {0, 3}, queries = {0, 1}, keys_and_values = {1, 3};

/* All rows' projections. `own`: those of these kv heads; NULL: a share of the tiles. */
static void project(struct worker *w, const struct layer_plan *layer, const float *norm,
                    struct projections which, const struct head_share *own)
{
    struct backend *b = w->backend;
    const struct attention_plan *a = &layer->attention;
    const int32_t rows = b->rows.n, d = b->plan->d_model;
    const struct {
        const struct weight *weight;
        const float *bias;
        float *out;
    } parts[3] = {{&a->wq, a->bq.at, b->q}, {&a->wk, a->bk.at, b->k}, {&a->wv, a->bv.at, b->v}};
    struct pack pack = {
        .slot = PANEL_INPUT, .x = b->x, .stride = (size_t)d, .n = rows, .cols = d, .norm = norm};
    struct product products[3];
    for (int i = which.from; i < which.to; i++)
        pack.kinds |= matmul_kinds(w, parts[i].weight);
    struct panel panel = matmul_pack(w, &pack);
    for (int i = which.from; i < which.to; i++)
        products[i] = (struct product){.weight = parts[i].weight,
                                       .panel = &panel,
                                       .n = rows,
                                       .bias = parts[i].bias,
                                       .out = parts[i].out,
                                       .stride = (size_t)parts[i].weight->rows};
    if (!own) {
        matmul_run(w, products + which.from, which.to - which.from);
        return;
    }
    for (int i = which.from; i < which.to; i++) {
        const int32_t each = parts[i].weight->rows / a->n_kv_head, lanes = b->kernels->lanes;
        matmul_run_tiles(w, &products[i], own->from * each / lanes, own->to * each / lanes);
        w->weight_bytes += w->index == 0 ? weight_matrix_bytes(parts[i].weight) : 0;
    }
}

static void norm_and_rotate(struct worker *w, const struct attention_plan *a,
                            const struct vector *norm, const float *cos_sin, float *head)
{
    if (norm->at)
        w->backend->kernels->rms_norm(head, norm->at, w->backend->plan->norm_eps, a->d_head, head);
    if (a->rope.n_dims)
        rope_apply(&a->rope, cos_sin, head);
}

/* Key and value of one kv head in one row: finished and stored. */
static void keep_head(struct worker *w, const struct layer_plan *layer, int32_t index, int32_t row,
                      int32_t kv_head)
{
    struct backend *b = w->backend;
    const struct attention_plan *a = &layer->attention;
    const struct step_sequence *s = &b->step->sequences[b->rows.sequence[row]];
    const float *cos_sin = b->ropes[index].cos_sin + (size_t)row * (size_t)a->rope.n_dims;
    const int32_t position = b->rows.position[row];
    float *k = b->k + (size_t)row * (size_t)a->wk.rows + (size_t)(kv_head * a->d_head);
    const float *v = b->v + (size_t)row * (size_t)a->wv.rows + (size_t)(kv_head * a->d_head);
    norm_and_rotate(w, a, &a->k_norm, cos_sin, k);
    b->kernels->store_kv(&b->views[layer->kv_index], s->blocks[position / KV_TOKENS],
                         position % KV_TOKENS, kv_head, k, v);
}

/* The queries of one kv head in one row. */
static void finish_queries(struct worker *w, const struct layer_plan *layer, int32_t index,
                           int32_t row, int32_t kv_head)
{
    struct backend *b = w->backend;
    const struct attention_plan *a = &layer->attention;
    const struct kv_view *view = &b->views[layer->kv_index];
    const float *cos_sin = b->ropes[index].cos_sin + (size_t)row * (size_t)a->rope.n_dims;
    int32_t group = a->n_head / a->n_kv_head, stride = query_stride(a);
    float *q = b->q + (size_t)row * (size_t)a->wq.rows + (size_t)(kv_head * group * stride);
    for (int32_t i = 0; i < group; i++) {
        norm_and_rotate(w, a, &a->q_norm, cos_sin, q + i * stride);
        if (kv_type_packed(view->type))
            b->kernels->rotate(q + i * stride, a->d_head);
    }
}

/* Queries, key and value of one kv head in one row: finished, and the latter two stored. */
static void finish_heads(struct worker *w, const struct layer_plan *layer, int32_t index,
                         int32_t row, int32_t kv_head)
{
    finish_queries(w, layer, index, row, kv_head);
    keep_head(w, layer, index, row, kv_head);
}

void attention_keep(struct worker *w, const struct layer_plan *layer, int32_t index,
                    const float *norm)
{
    struct backend *b = w->backend;
    const struct attention_plan *a = &layer->attention;
    const int32_t n = b->rows.n;
    int32_t from, to;
    project(w, layer, norm, keys_and_values, NULL);
    worker_barrier(w);
    worker_share(w, n * a->n_kv_head, &from, &to);
    for (int32_t u = from; u < to; u++)
        keep_head(w, layer, index, u / a->n_kv_head, u % a->n_kv_head);
    worker_barrier(w);
}

static void apply_gate(const struct attention_plan *a, const float *q, int32_t group, float *out)
{
    for (int32_t h = 0; h < group; h++) {
        const float *gate = q + h * 2 * a->d_head + a->d_head;
        for (int32_t i = 0; i < a->d_head; i++)
            out[h * a->d_head + i] /= 1 + expf(-gate[i]);
    }
}

/* Of a head's results: packed values are rotated back, the gate is applied. */
static void finish_result(struct worker *w, const struct layer_plan *layer, int32_t row,
                          int32_t kv_head)
{
    struct backend *b = w->backend;
    const struct attention_plan *a = &layer->attention;
    int32_t group = a->n_head / a->n_kv_head, head = kv_head * group;
    float *out =
        b->mixed + (size_t)row * (size_t)(a->n_head * a->d_head) + (size_t)(head * a->d_head);
    if (kv_type_packed(b->views[layer->kv_index].type))
        for (int32_t i = 0; i < group; i++)
            b->kernels->rotate(out + i * a->d_head, a->d_head);
    if (a->output_gate)
        apply_gate(a, b->q + (size_t)row * (size_t)a->wq.rows + (size_t)(head * query_stride(a)),
                   group, out);
}

/* Heads of one row that share a kv head. */
static struct attend heads_of(struct worker *w, const struct layer_plan *layer, int32_t row,
                              int32_t kv_head)
{
    struct backend *b = w->backend;
    const struct attention_plan *a = &layer->attention;
    const struct kv_view *view = &b->views[layer->kv_index];
    const struct step_sequence *s = &b->step->sequences[b->rows.sequence[row]];
    int32_t group = a->n_head / a->n_kv_head, stride = query_stride(a),
            end = a->bidirectional ? s->start + s->n_tokens : b->rows.position[row] + 1;
    int32_t from = a->window && end > a->window ? end - a->window : 0, head = kv_head * group;
    const float *q = b->q + (size_t)row * (size_t)a->wq.rows + (size_t)(head * stride);
    float *out =
        b->mixed + (size_t)row * (size_t)(a->n_head * a->d_head) + (size_t)(head * a->d_head);
    return (struct attend){.kv = view,
                           .blocks = s->blocks,
                           .kv_head = kv_head,
                           .from = from,
                           .to = end,
                           .n_query = group,
                           .q = q,
                           .q_stride = (size_t)stride,
                           .scale = a->scale,
                           .sinks = a->sinks.at ? a->sinks.at + head : NULL,
                           .out = out,
                           .out_stride = (size_t)a->d_head,
                           .scores = w->scores};
}

/* Rows of one sequence that are attended together. */
struct row_tile {
    int32_t first, n;
};

static void attend_tile(struct worker *w, const struct layer_plan *layer, struct row_tile t,
                        int32_t kv_head)
{
    struct backend *b = w->backend;
    const struct attention_plan *a = &layer->attention;
    struct attend_rows rows = {.first = heads_of(w, layer, t.first, kv_head),
                               .n = t.n,
                               .level = a->bidirectional,
                               .window = a->window,
                               .q_row = (size_t)a->wq.rows,
                               .out_row = (size_t)(a->n_head * a->d_head),
                               .block = w->kv_block};
    if (t.n > 1)
        b->kernels->attend_rows(&rows);
    else
        b->kernels->attend(&rows.first);
    for (int32_t i = 0; i < t.n; i++)
        finish_result(w, layer, t.first + i, kv_head);
    w->kv_bytes += (uint64_t)(rows.first.to + t.n - 1 - rows.first.from) *
                   kv_head_bytes(a->d_head, rows.first.kv->type);
}

/* Rows of a tile at most. */
static int32_t tile_rows(const struct backend *b, const struct layer_plan *layer)
{
    const struct attention_plan *a = &layer->attention;
    const int32_t most = ATTEND_QUERIES / (a->n_head / a->n_kv_head);
    if (!b->kernels->attend_rows || kv_type_packed(b->views[layer->kv_index].type) ||
        a->d_head > ATTEND_WIDEST_HEAD || most < 1)
        return 1;
    return most < ATTEND_ROWS ? most : ATTEND_ROWS;
}

static int32_t tile_count(const struct backend *b, int32_t size)
{
    int32_t n = 0;
    for (int32_t i = 0; i < b->step->n_sequences; i++)
        n += (wanted_rows_of(b, i) + size - 1) / size;
    return n;
}

static struct row_tile tile_at(const struct backend *b, int32_t size, int32_t index)
{
    int32_t first = 0;
    for (int32_t i = 0;; i++) {
        const int32_t rows = wanted_rows_of(b, i), tiles = (rows + size - 1) / size;
        if (index < tiles) {
            const int32_t left = rows - index * size;
            return (struct row_tile){first + index * size, left < size ? left : size};
        }
        index -= tiles;
        first += rows;
    }
}

/* Keys and values that all rows look at. */
static uint64_t seen_bytes(const struct backend *b, const struct attention_plan *a)
{
    uint64_t positions = 0;
    for (int32_t t = 0; t < b->rows.n; t++)
        positions += (uint64_t)b->rows.position[t] + 1;
    return positions * (uint64_t)a->n_kv_head * (uint64_t)a->d_head * 4;
}

static void attend_all(struct worker *w, const struct layer_plan *layer)
{
    struct backend *b = w->backend;
    const struct attention_plan *a = &layer->attention;
    const int32_t size = tile_rows(b, layer);
    int32_t from, to;
    worker_loop_begin(w, tile_count(b, size) * a->n_kv_head, seen_bytes(b, a));
    while (worker_next_chunk(w, &from, &to))
        for (int32_t u = from; u < to; u++)
            attend_tile(w, layer, tile_at(b, size, u / a->n_kv_head), u % a->n_kv_head);
}

/* With little to do, each thread projects, stores and attends kv heads of its own: no thread reads
 * what another has just written, which saves two barriers. False: the heads can't be shared so. */
static bool own_heads(const struct worker *w, const struct layer_plan *layer,
                      struct head_share *own)
{
    const struct backend *b = w->backend;
    const struct attention_plan *a = &layer->attention;
    const int32_t each = a->n_kv_head / w->count, lanes = b->kernels->lanes;
    const uint64_t bytes =
        weight_matrix_bytes(&a->wq) + weight_matrix_bytes(&a->wk) + weight_matrix_bytes(&a->wv);
    if (!worker_private(b) || a->n_kv_head % w->count ||
        each * (a->wq.rows / a->n_kv_head) % lanes || each * (a->wk.rows / a->n_kv_head) % lanes ||
        each * (a->wv.rows / a->n_kv_head) % lanes ||
        bytes * (uint64_t)b->rows.n > (uint64_t)w->count * OWN_HEAD_BYTES ||
        seen_bytes(b, a) > (uint64_t)w->count * OWN_HEAD_BYTES)
        return false;
    *own = (struct head_share){w->index * each, (w->index + 1) * each};
    return true;
}

static void attend_own(struct worker *w, const struct layer_plan *layer, int32_t index,
                       const struct head_share *own)
{
    const struct backend *b = w->backend;
    const int32_t size = tile_rows(b, layer);
    for (int32_t i = 0, row = 0, end; i < b->step->n_sequences; i++) {
        end = row + b->step->sequences[i].n_tokens;
        for (int32_t head = own->from; head < own->to; head++) {
            for (int32_t t = row; t < end; t++)
                finish_heads(w, layer, index, t, head);
            for (int32_t t = row; t < end; t += size)
                attend_tile(w, layer, (struct row_tile){t, end - t < size ? end - t : size}, head);
        }
        row = end;
    }
    worker_barrier(w);
}

static void attend_shared(struct worker *w, const struct layer_plan *layer, int32_t index)
{
    struct backend *b = w->backend;
    const struct attention_plan *a = &layer->attention;
    int32_t from, to;
    worker_loop_begin(w, b->rows.n * a->n_kv_head, seen_bytes(b, a));
    while (worker_next_chunk(w, &from, &to))
        for (int32_t u = from; u < to; u++) {
            finish_heads(w, layer, index, u / a->n_kv_head, u % a->n_kv_head);
            if (b->rows.one_row_each) /* it needs no key that another thread has just stored */
                attend_tile(w, layer, (struct row_tile){u / a->n_kv_head, 1}, u % a->n_kv_head);
        }
    worker_barrier(w);
    if (b->rows.one_row_each)
        return;
    attend_all(w, layer);
    worker_barrier(w);
}

/* The last layer of a prompt: keys and values of all rows, then what wanted rows see. */
static void attend_wanted(struct worker *w, const struct layer_plan *layer, int32_t index)
{
    struct backend *b = w->backend;
    const int32_t heads = layer->attention.n_kv_head;
    int32_t from, to;
    attention_keep(w, layer, index, layer->mixer_norm.at);
    wanted_rows_leave(w);
    if (!b->rows.n)
        return;
    project(w, layer, layer->mixer_norm.at, queries, NULL);
    worker_barrier(w);
    worker_share(w, b->rows.n * heads, &from, &to);
    for (int32_t u = from; u < to; u++)
        finish_queries(w, layer, index, u / heads, u % heads);
    worker_barrier(w);
    attend_all(w, layer);
    worker_barrier(w);
}

void attention_run(struct worker *w, const struct layer_plan *layer, int32_t index)
{
    struct backend *b = w->backend;
    const struct attention_plan *a = &layer->attention;
    const int32_t d = b->plan->d_model, width = a->n_head * a->d_head;
    struct head_share own;
    if (wanted_rows_fewer(b, index))
        attend_wanted(w, layer, index);
    else if (own_heads(w, layer, &own)) {
        project(w, layer, layer->mixer_norm.at, all_three, &own);
        attend_own(w, layer, index, &own);
    } else {
        project(w, layer, layer->mixer_norm.at, all_three, NULL);
        worker_barrier(w);
        attend_shared(w, layer, index);
    }
    const int32_t n = b->rows.n;
    if (!n)
        return;
    struct panel panel = matmul_pack(w, &(struct pack){.slot = PANEL_MIXED,
                                                       .x = b->mixed,
                                                       .stride = (size_t)width,
                                                       .n = n,
                                                       .cols = width,
                                                       .kinds = matmul_kinds(w, &a->wo)});
    struct product out = {.weight = &a->wo,
                          .panel = &panel,
                          .n = n,
                          .bias = a->bo.at,
                          .out = b->y,
                          .stride = (size_t)d,
                          .residual = b->x};
    matmul_run(w, &out, 1);
    worker_barrier(w);
}
