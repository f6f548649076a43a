/* Dispatches, op by op. */
#include "engine/vulkan/record.h"

#include <stdio.h>
#include <string.h>

#define THREADS 256u

struct dispatch {
    const char *shader; /* with the format's suffix, where it has one */
    const char *format; /* NULL: none */
    uint32_t spec[GPU_MAX_SPEC];
    const void *push;
    uint32_t push_bytes;
    uint32_t x, y, z;
};

static void dispatch(struct recorder *r, const struct dispatch *d)
{
    char name[64];
    if (!r->ok) {
        return;
    }
    snprintf(name, sizeof name, d->format ? "%s_%s" : "%s", d->shader, d->format);
    VkPipeline p = gpu_pipeline(&r->b->gpu, name, d->spec, r->e);
    if (!p) {
        r->ok = err_prefix(r->e, "%s", name);
        return;
    }
    vkCmdBindPipeline(r->c, VK_PIPELINE_BIND_POINT_COMPUTE, p);
    vkCmdPushConstants(r->c, r->b->gpu.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, d->push_bytes, d->push);
    vkCmdDispatch(r->c, d->x, d->y, d->z);
}

void record_barrier(struct recorder *r)
{
    if (r->ok) {
        gpu_barrier(r->c);
    }
}

static uint32_t divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

static void spec_format(uint32_t *spec, const struct device_matrix *m)
{
    spec[16] = m->layout.bits;
    spec[17] = m->layout.group_chunks;
    spec[18] = m->layout.scale_type;
}

struct push_planes {
    uint64_t plane[DEVICE_PLANES];
};

static struct push_planes planes_of(const struct device_matrix *m)
{
    return (struct push_planes){{m->plane[0], m->plane[1], m->plane[2]}};
}

void record_embed(struct recorder *r)
{
    const struct device_matrix *m = &r->b->model.embed;
    struct {
        struct push_planes w;
        uint64_t rows, x;
        uint32_t n_chunk, pad;
    } push = {planes_of(m), r->b->step.at_rows, r->b->work.x, m->layout.n_chunk, 0};
    struct dispatch d = {.shader = "embed", .format = m->layout.kernel, .spec = {64}, .push = &push, .push_bytes = sizeof push,
                         .x = divide_up(m->layout.n_chunk, 64), .y = r->n_rows, .z = 1};
    spec_format(d.spec, m);
    dispatch(r, &d);
}

/* Rows of W per subgroup: more of them share one read of x, fewer fill more of the device. */
static uint32_t rows_per_subgroup(const struct recorder *r, uint32_t rows)
{
    uint32_t subgroups = THREADS / r->b->gpu.caps.subgroup;
    return rows >= subgroups * 4 * 256 ? 4 : rows >= subgroups * 2 * 64 ? 2 : 1;
}

void record_linear(struct recorder *r, const struct linear_op *op)
{
    const struct device_matrix *m = op->w;
    uint32_t cols = op->n_x >= 4 ? 4 : op->n_x >= 2 ? 2 : 1, rows = rows_per_subgroup(r, m->rows);
    struct {
        struct push_planes w;
        uint64_t x, norm, y, bias, gather;
        uint32_t rows, n_chunk, x_stride, y_stride, n_x;
        float eps, inverse_cols;
        uint32_t pad;
    } push = {planes_of(m), op->x, op->norm, op->y, op->bias, op->gather, m->rows, m->layout.n_chunk,
              op->x_stride / 4, op->y_stride, op->n_x, op->eps, 1.0f / (float)r->b->plan->d_model, 0};
    struct dispatch d = {.shader = "linear", .format = m->layout.kernel,
                         .spec = {THREADS, rows, cols, 4096 / cols, op->norm != 0, op->add, op->bias != 0, op->gather != 0},
                         .push = &push, .push_bytes = sizeof push,
                         .x = divide_up(m->rows, rows * (THREADS / r->b->gpu.caps.subgroup)), .y = divide_up(op->n_x, cols), .z = 1};
    spec_format(d.spec, m);
    dispatch(r, &d);
}

void record_mlp_up(struct recorder *r, const struct mlp_op *op)
{
    const struct device_matrix *gate = &op->m->gate, *up = &op->m->up;
    const struct work *w = &r->b->work;
    uint32_t rows = 1, h_stride = op->m->down.layout.n_chunk * 32;
    struct {
        struct push_planes gate, up;
        uint64_t x, norm, h, b_gate, b_up, ids;
        uint32_t rows, n_chunk, x_stride, h_stride, n_used;
        float eps, inverse_cols;
        uint32_t pad;
    } push = {planes_of(gate), planes_of(up), w->x, op->norm, op->h, op->m->b_gate, op->m->b_up, w->ids, gate->rows,
              gate->layout.n_chunk, r->b->sizes.d / 4, h_stride, op->n_used, r->b->plan->norm_eps,
              1.0f / (float)r->b->plan->d_model, 0};
    struct dispatch d = {.shader = "moe_up", .format = gate->layout.kernel,
                         .spec = {THREADS, rows, 1, 4096, true, op->clamp, op->m->b_gate != 0, op->weights_kind == 0},
                         .push = &push, .push_bytes = sizeof push,
                         .x = divide_up(gate->rows, rows * (THREADS / r->b->gpu.caps.subgroup)), .y = r->n_rows * op->n_used, .z = 1};
    spec_format(d.spec, gate);
    dispatch(r, &d);
}

void record_mlp_down(struct recorder *r, const struct mlp_op *op)
{
    const struct device_matrix *down = &op->m->down;
    const struct work *w = &r->b->work;
    uint32_t rows = 1;
    struct {
        struct push_planes down;
        uint64_t h, y, bias, weights, ids, token_rows;
        uint32_t rows, n_chunk, h_stride, y_stride, weights_stride, pad;
    } push = {planes_of(down), op->h, w->x, op->m->b_down, op->weights, w->ids, r->b->step.at_rows, down->rows,
              down->layout.n_chunk, down->layout.n_chunk * 8, r->b->sizes.d, op->n_used, 0};
    struct dispatch d = {.shader = "moe_down", .format = down->layout.kernel,
                         .spec = {THREADS, rows, 1, 4096, false, op->n_used, op->m->b_down != 0, op->weights_kind},
                         .push = &push, .push_bytes = sizeof push,
                         .x = divide_up(down->rows, rows * (THREADS / r->b->gpu.caps.subgroup)), .y = r->n_rows, .z = 1};
    spec_format(d.spec, down);
    dispatch(r, &d);
}

void record_route(struct recorder *r, const struct moe_plan *p, const struct device_layer *l, int layer)
{
    const struct work *w = &r->b->work;
    struct {
        uint64_t logits, select_bias, rows, ids, weights, used;
        uint32_t stride;
        float scale;
        uint32_t has_select_bias, pad;
    } push = {w->router, l->select_bias, r->b->step.at_rows, w->ids, w->weights, w->used + (uint64_t)layer * USED_WORDS * 4,
              r->b->sizes.expert, p->scale, l->select_bias != 0, 0};
    struct dispatch d = {.shader = "moe_route", .spec = {128}, .push = &push, .push_bytes = sizeof push, .x = r->n_rows, .y = 1, .z = 1};
    d.spec[20] = (uint32_t)p->n_expert;
    d.spec[21] = (uint32_t)p->n_used;
    d.spec[22] = (uint32_t)p->score;
    d.spec[23] = p->normalize;
    d.spec[24] = p->n_group > 1 ? (uint32_t)p->n_group : 1;
    d.spec[25] = p->n_group > 1 ? (uint32_t)p->n_group_used : 1;
    dispatch(r, &d);
}

static void spec_rope(const struct recorder *r, uint32_t *spec, const struct attention_plan *a)
{
    spec[8] = (uint32_t)a->d_head;
    spec[9] = (uint32_t)a->rope.n_dims;
    spec[10] = a->rope.interleaved;
    spec[11] = a->q_norm.at != NULL;
    spec[12] = r->b->params.exact;
}

void record_rope_kv(struct recorder *r, const struct attention_plan *a, const struct device_layer *l)
{
    struct {
        uint64_t qkv, q_norm, k_norm, inv_freq, rows, tables, kv;
        uint32_t stride, n_head, n_kv_head, q_step;
        float eps, rope_scale;
    } push = {r->b->work.qkv, l->q_norm, l->k_norm, l->inv_freq, r->b->step.at_rows, r->b->step.at_tables, l->kv,
              r->b->sizes.qkv, (uint32_t)a->n_head, (uint32_t)a->n_kv_head, (uint32_t)(a->d_head * (a->output_gate ? 2 : 1)),
              r->b->plan->norm_eps, a->rope.scale};
    struct dispatch d = {.shader = "rope_kv", .spec = {r->b->gpu.caps.subgroup}, .push = &push, .push_bytes = sizeof push,
                         .x = (uint32_t)(a->n_head + 2 * a->n_kv_head), .y = r->n_rows, .z = 1};
    spec_rope(r, d.spec, a);
    dispatch(r, &d);
}

void record_attention(struct recorder *r, const struct attention_plan *a, const struct device_layer *l, bool prep)
{
    const struct work *w = &r->b->work;
    uint32_t splits = r->n_rows <= r->b->sizes.decode_rows ? r->b->sizes.max_splits : 4;
    struct {
        uint64_t qkv, q_norm, k_norm, inv_freq, sinks, outs, rows, tables, kv, parts, arrived;
        uint32_t stride, n_head, n_kv_head, q_step, window;
        float eps, rope_scale, scale;
    } push = {w->qkv, l->q_norm, l->k_norm, l->inv_freq, l->sinks, w->attn, r->b->step.at_rows, r->b->step.at_tables, l->kv,
              w->parts, w->arrived, r->b->sizes.qkv, (uint32_t)a->n_head, (uint32_t)a->n_kv_head,
              (uint32_t)(a->d_head * (a->output_gate ? 2 : 1)), (uint32_t)a->window, r->b->plan->norm_eps, a->rope.scale, a->scale};
    struct dispatch d = {.shader = "attn",
                         .spec = {THREADS, (uint32_t)(a->n_head / a->n_kv_head), prep, a->output_gate, a->sinks.at != NULL, THREADS, 2, splits},
                         .push = &push, .push_bytes = sizeof push,
                         .x = splits, .y = (uint32_t)a->n_kv_head, .z = r->n_rows};
    spec_rope(r, d.spec, a);
    dispatch(r, &d);
}

void record_top(struct recorder *r, uint32_t first, uint32_t n)
{
    const struct work *w = &r->b->work;
    uint32_t vocab = (uint32_t)r->b->plan->n_vocab, slices = r->b->sizes.n_slices;
    uint64_t row_bytes = BACKEND_MAX_TOP * 4;
    struct {
        uint64_t values, ids, stats, out_values, out_ids, lse, n_top;
        uint32_t n, n_slices;
    } push = {w->logits, 0, w->stats, w->candidates, w->candidate_ids, 0, r->b->step.at_n_top, vocab, slices};
    struct dispatch d = {.shader = "top", .spec = {THREADS, false, THREADS, 2048}, .push = &push, .push_bytes = sizeof push,
                         .x = slices, .y = n, .z = 1};
    dispatch(r, &d);
    record_barrier(r);
    push.values = w->candidates;
    push.ids = w->candidate_ids;
    push.out_values = r->b->result.at_logits + first * row_bytes;
    push.out_ids = r->b->result.at_ids + first * row_bytes;
    push.lse = r->b->result.at_lse + first * 4;
    d.spec[1] = true;
    d.x = 1;
    dispatch(r, &d);
}
