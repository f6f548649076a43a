/* Writes a step's description to device memory, runs it, and reads results back into rows. */
#include "engine/vulkan/ops/vulkan_step.h"

#include <stdlib.h>
#include <string.h>

#define LOG_MODULE "vulkan"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/vulkan/ops/record.h"

/* Exact for the batches of decoding, coarser for prefill, so that few shapes are recorded. */
static int32_t round_rows(int32_t n, int32_t most)
{
    int32_t unit = n <= 32 ? 1 : n <= 256 ? 32 : 64, up = (n + unit - 1) / unit * unit;
    return up < most ? up : most;
}

static bool check(const struct backend *b, const struct step *s, struct err *e)
{
    int64_t rows = 0, blocks = 0;
    if (s->hidden)
        return err_set(e, ERR_UNSUPPORTED, "hidden rows stay on the GPU");
    if (s->n_sequences < 1 || s->n_sequences > b->params.max_sequences) {
        return err_set(e, ERR_LIMIT, "%d sequences in a step; at most %d", s->n_sequences,
                       b->params.max_sequences);
    }
    for (int32_t i = 0; i < s->n_sequences; i++) {
        const struct step_sequence *q = &s->sequences[i];
        rows += q->n_tokens;
        blocks += (q->start + q->n_tokens + BACKEND_BLOCK_TOKENS - 1) / BACKEND_BLOCK_TOKENS;
        if (q->n_tokens < 1 || q->start < 0 || q->n_out < 0 || q->n_out > q->n_tokens ||
            q->n_experts < 0 || rows > b->params.max_rows) {
            return err_set(e, ERR_LIMIT,
                           "sequence %d of the step: %d tokens, %d wanted; %d rows at most", i,
                           q->n_tokens, q->n_out, b->params.max_rows);
        }
        if (b->plan->n_recurrent && (q->state < 0 || q->state >= b->params.n_states)) {
            return err_set(e, ERR_INTERNAL, "state of sequence %d is %d, want 0..%d", i, q->state,
                           b->params.n_states - 1);
        }
        if (blocks > b->step.table_cap) {
            return err_set(e, ERR_LIMIT, "%lld KV blocks in a step; at most %d", (long long)blocks,
                           b->step.table_cap);
        }
    }
    return true;
}

/* The trace's experts of every row and layer: it asks for no result of the step. */
static void fill_trace(struct backend *b, const struct step *s)
{
    for (int32_t layer = 0; layer < b->plan->n_layer; layer++) {
        const struct layer_plan *l = &b->plan->layers[layer];
        int32_t *ids = (int32_t *)(void *)((uint8_t *)b->step.trace.map +
                                           (uint64_t)layer * workspace_trace_bytes(b));
        for (int32_t i = 0; l->ffn == FFN_MOE && i < s->n_sequences; i++)
            for (int32_t j = 0; j < s->sequences[i].n_tokens; j++, ids += l->moe.n_used)
                b->params.route(b->params.route_context, layer, i, s->sequences[i].start + j, ids);
    }
}

/* A row, which the last layer may find dead. */
static void put_row(struct step_memory *m, int32_t at, const int32_t row[4], bool wanted)
{
    memcpy(m->rows[at], row, sizeof m->rows[at]);
    memcpy(m->last_rows[at], row, sizeof m->last_rows[at]);
    if (!wanted)
        m->last_rows[at][1] = STEP_PADDING;
}

/* A run of rows, which is empty for the last layer unless one of them is wanted. */
static void put_tile(struct step_memory *m, int32_t at, int32_t first, int32_t n, bool wanted)
{
    const int32_t run[4] = {first, n, 0, 0}, none[4] = {0};
    memcpy(m->tiles[at], run, sizeof run);
    memcpy(m->last_tiles[at], wanted ? run : none, sizeof run);
}

/* Fills the step's variables; returns the exact shape. */
static struct step_shape fill(struct backend *b, const struct step *s)
{
    struct step_memory *m = &b->step;
    struct step_shape shape = {.one_row_each = true};
    int32_t table = 0, deepest = 0;
    int32_t tile = b->tuning.gemm_min_rows == UINT32_MAX ? 0 : m->tile_rows;
    for (int32_t i = 0; i < s->n_sequences; i++) {
        const struct step_sequence *q = &s->sequences[i];
        int32_t n_blocks =
            (q->start + q->n_tokens + BACKEND_BLOCK_TOKENS - 1) / BACKEND_BLOCK_TOKENS;
        /* A row alone is computed whole: attention writes its key and value, probes time it. */
        const int32_t unwanted = q->n_tokens > 1 ? q->n_tokens - q->n_out : 0;
        /* A short run is not worth a tile: attn splits its context over workgroups. */
        bool tiled = tile && q->n_tokens >= b->tuning.tiled_rows;
        for (int32_t j = 0; tiled && j < q->n_tokens; j += tile) {
            int32_t n = q->n_tokens - j < tile ? q->n_tokens - j : tile;
            put_tile(m, shape.n_tiles++, shape.n_rows + j, n, j + n > unwanted);
        }
        shape.has_untiled = shape.has_untiled || !tiled;
        int32_t place[4] = {shape.n_rows, q->n_tokens, q->state, q->start};
        memcpy(m->sequences[i], place, sizeof place);
        for (int32_t j = 0; j < q->n_tokens; j++) {
            int32_t run[2] = {q->state, j};
            memcpy(m->runs[shape.n_rows], run, sizeof run);
            int32_t row[4] = {q->tokens[j], q->start + j, table, q->n_experts << 1 | tiled};
            put_row(m, shape.n_rows, row, j >= unwanted);
            deepest = !tiled && row[1] > deepest ? row[1] : deepest;
            if (j >= q->n_tokens - q->n_out)
                m->outs[shape.n_out++] = shape.n_rows;
            shape.n_rows++;
        }
        memcpy(m->tables + table, q->blocks, (size_t)n_blocks * sizeof(int32_t));
        table += n_blocks;
        shape.one_row_each = shape.one_row_each && q->n_tokens == 1;
        shape.full_logits = shape.full_logits || (q->want_logits && q->n_out);
        b->counters.kv_bytes_read +=
            (uint64_t)n_blocks * b->kv_block_bytes * (uint64_t)b->plan->n_attention;
    }
    shape.n_sequences =
        b->plan->n_recurrent && !(shape.one_row_each && b->delta_steps) ? s->n_sequences : 0;
    shape.n_splits = (int32_t)record_splits(b, shape.n_rows, deepest);
    m->n_top[0] = s->n_top < 1 ? 1 : s->n_top > BACKEND_MAX_TOP ? BACKEND_MAX_TOP : s->n_top;
    if (m->n_top[0] > b->plan->n_vocab)
        m->n_top[0] = b->plan->n_vocab;
    return shape;
}

/* Pads to the recorded shape with dead rows; padded outputs repeat row 0. */
static struct step_shape pad(struct backend *b, struct step_shape exact)
{
    struct step_shape shape = exact;
    shape.n_rows = round_rows(exact.n_rows, b->params.max_rows);
    shape.n_out = round_rows(exact.n_out, b->params.max_rows);
    shape.n_tiles = (exact.n_tiles + 7) / 8 * 8;
    for (shape.n_sequences = exact.n_sequences > 0; shape.n_sequences < exact.n_sequences;)
        shape.n_sequences *= 2;
    for (shape.n_splits = 1; shape.n_splits < exact.n_splits;)
        shape.n_splits += shape.n_splits < 32 ? shape.n_splits : 8;
    const int32_t most_splits = (int32_t)record_most_splits(b, shape.n_rows);
    shape.n_splits = shape.n_splits < most_splits ? shape.n_splits : most_splits;
    if (shape.n_sequences > b->params.max_sequences)
        shape.n_sequences = b->params.max_sequences;
    for (int32_t i = exact.n_sequences; i < shape.n_sequences; i++)
        memset(b->step.sequences[i], 0, sizeof b->step.sequences[i]);
    for (int32_t i = exact.n_tiles; i < shape.n_tiles; i++)
        put_tile(&b->step, i, 0, 0, false);
    for (int32_t i = exact.n_rows; i < shape.n_rows; i++) {
        int32_t row[4] = {0, STEP_PADDING, 0, 0};
        put_row(&b->step, i, row, false);
    }
    for (int32_t i = exact.n_out; i < shape.n_out; i++)
        b->step.outs[i] = 0;
    return shape;
}

static bool shape_equal(const struct step_shape *a, const struct step_shape *b)
{
    return a->n_rows == b->n_rows && a->n_out == b->n_out && a->n_tiles == b->n_tiles &&
           a->n_sequences == b->n_sequences && a->one_row_each == b->one_row_each &&
           a->has_untiled == b->has_untiled && a->n_splits == b->n_splits &&
           a->full_logits == b->full_logits && a->again == b->again;
}

static VkCommandBuffer recorded(struct backend *b, const struct step_shape *s, struct err *e)
{
    int oldest = 0;
    for (int i = 0; i < b->n_recorded; i++) {
        struct recorded_step *r = &b->recorded[i];
        if (shape_equal(&r->shape, s)) {
            r->used_at = b->n_steps;
            return r->command;
        }
        oldest = r->used_at < b->recorded[oldest].used_at ? i : oldest;
    }
    VkCommandBuffer c = forward_record(b, s, e);
    if (!c)
        return NULL;
    int at = b->n_recorded < MAX_RECORDED ? b->n_recorded++ : oldest;
    gpu_command_free(&b->gpu, &b->recorded[at].command);
    b->recorded[at] = (struct recorded_step){.shape = *s, .command = c, .used_at = b->n_steps};
    return c;
}

void vulkan_step_forget(struct backend *b)
{
    for (; b->n_recorded > 0; b->n_recorded--)
        gpu_command_free(&b->gpu, &b->recorded[b->n_recorded - 1].command);
}

/* Workgroups that were to run at once did not: never again in this engine. */
static void leave_resident(struct backend *b)
{
    log_warn("%s does not run %u workgroups at once; steps of few rows go on without that",
             b->gpu.caps.name, b->tuning.resident_groups);
    b->tuning.resident_groups = 0;
    vulkan_step_forget(b);
}

/* Behind the layers that the plan has now: probes run a part of them. */
static bool gave_up(const struct backend *b)
{
    return b->result.used[(size_t)b->plan->n_layer * USED_WORDS] != 0;
}

/* A step that gave up has left nothing that another run of it does not write again, but for
 * recurrent states that it has advanced, which that run knows. */
static bool run_whole(struct backend *b, const struct step_shape *first, struct err *e)
{
    struct step_shape of = *first, *shape = &of;
    bool ok, again;
    do {
        VkCommandBuffer c = b->profile ? forward_record(b, shape, e) : recorded(b, shape, e);
        ok = c && gpu_run(&b->gpu, c, e);
        if (b->profile) /* with timestamps: not for later steps */
            gpu_command_free(&b->gpu, &c);
        again = ok && gave_up(b) && b->tuning.resident_groups;
        if (again) {
            leave_resident(b);
            shape->again = true;
        }
    } while (again);
    return ok;
}

static void count(struct backend *b, const struct step_shape *exact)
{
    uint64_t bytes = b->dense_bytes;
    for (int i = 0; i < b->plan->n_layer; i++) {
        const struct moe_plan *m = &b->plan->layers[i].moe;
        if (b->plan->layers[i].ffn != FFN_MOE)
            continue;
        uint64_t each = weight_matrix_bytes(&m->gate) + weight_matrix_bytes(&m->up) +
                        weight_matrix_bytes(&m->down);
        for (int w = 0; w < USED_WORDS; w++)
            bytes += each * (uint64_t)__builtin_popcount(b->result.used[i * USED_WORDS + w]);
    }
    b->counters.weight_bytes_read += bytes;
    b->counters.steps++;
    b->counters.rows += (uint64_t)exact->n_rows;
}

static void publish(struct backend *b, const struct step *s, struct step_row *rows)
{
    const struct result_memory *r = &b->result;
    size_t n = 0;
    for (int32_t i = 0; i < s->n_sequences; i++) {
        for (int32_t j = 0; j < s->sequences[i].n_out; j++, n++) {
            rows[n] = (struct step_row){.top_ids = r->ids + n * BACKEND_MAX_TOP,
                                        .top_logits = r->logits + n * BACKEND_MAX_TOP,
                                        .log_sum_exp = r->lse[n]};
            if (s->sequences[i].want_logits)
                rows[n].logits = (const float *)r->full_logits.map + n * (size_t)b->plan->n_vocab;
        }
    }
}

bool vulkan_step_run(struct backend *b, const struct step *s, struct step_row *rows, struct err *e)
{
    uint64_t start = clock_ns();
    if (b->gpu.lost)
        return err_set(e, ERR_DEVICE, "the GPU was lost");
    if (!check(b, s, e))
        return false;
    b->n_steps++;
    struct step_shape exact = fill(b, s);
    if (b->params.route)
        fill_trace(b, s);
    const bool pooled = b->model.pooled,
               offload = !b->params.dump && expert_cpu_offload_wanted(b, exact.n_rows);
    struct step_shape shape = b->params.dump || pooled || offload ? exact : pad(b, exact);
    if (shape.full_logits && !workspace_reserve_full_logits(b, shape.n_out, e))
        return false;
    if (b->params.dump) {
        if (!forward_dump(b, &shape, e))
            return false;
    } else if (pooled || offload) {
        if (pooled)
            expert_pool_fit(&b->pool, &b->gpu);
        if (!forward_run_by_layer(b, &shape, offload, e))
            return false;
    } else {
        if (!run_whole(b, &shape, e))
            return false;
    }
    count(b, &exact);
    publish(b, s, rows);
    const struct device_slots_use use = {.plan = b->plan,
                                         .pool = pooled ? &b->pool : NULL,
                                         .used = b->result.used,
                                         .stride = USED_WORDS,
                                         .n_rows = exact.n_rows,
                                         .on_cpu = offload};
    if (b->model.n_slots && !device_slots_step(&b->slots, &b->gpu, &b->model, &use, e))
        return false;
    expert_cpu_offload_note(b);
    b->counters.step_ns += clock_ns() - start;
    return true;
}
