/* Which tensors of a plan go to the device, and how they are laid out there. */
#include "engine/vulkan/weights/device_model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void fill_rows(const struct heap_part *p, int source, int64_t first, int64_t n, uint8_t *out)
{
    device_layout_rows(p->sources[source], p->extra,
                       &(struct device_rows){.plane = p->plane, .first = first, .n = n}, out);
}

bool device_matrix_plan(struct heap *h, const struct weight *const *w, int n,
                        struct device_matrix *m, struct err *e)
{
    if (!device_layout_of(w[0], &m->layout, e))
        return false;
    m->n_matrix = (uint32_t)w[0]->n_matrix;
    m->rows = 0;
    for (int i = 0; i < n; i++)
        m->rows += (uint32_t)w[i]->rows;
    for (int plane = 0; plane < DEVICE_PLANES; plane++) {
        struct heap_part part = {.address = &m->plane[plane],
                                 .fill = fill_rows,
                                 .extra = &m->layout,
                                 .plane = plane,
                                 .row_bytes = m->layout.row_bytes[plane]};
        if (part.row_bytes == 0)
            continue;
        for (int i = 0; i < n; i++) {
            part.sources[i] = w[i];
            part.rows[i] = (int64_t)w[i]->n_matrix * w[i]->rows;
            part.bytes += (uint64_t)part.rows[i] * part.row_bytes;
        }
        if (!heap_plan(h, &part, e))
            return false;
    }
    return true;
}

static bool plan_matrix(struct heap *h, const struct weight *w, struct device_matrix *m,
                        struct err *e)
{
    return w->type == WEIGHT_NONE || device_matrix_plan(h, &w, 1, m, e);
}

/* Vectors are read four floats at a time up to a multiple of 32. */
static uint32_t padded_bytes(int32_t n)
{
    return (uint32_t)(n + 31) / 32 * 128;
}

static void fill_vector(const struct heap_part *p, int source, int64_t first, int64_t n,
                        uint8_t *out)
{
    const struct vector *v = p->sources[source];
    memset(out, 0, p->row_bytes);
    if (v->at)
        memcpy(out, v->at, (size_t)v->n * sizeof(float));
}

static bool plan_vector(struct heap *h, const struct vector *v, VkDeviceAddress *address,
                        struct err *e)
{
    if (!v->at)
        return true;
    struct heap_part part = {.address = address, .fill = fill_vector, .sources = {v}, .rows = {1}};
    part.bytes = part.row_bytes = padded_bytes(v->n);
    return heap_plan(h, &part, e);
}

/* inv_freq lies inside the plan, not in a vector. */
static void fill_inv_freq(const struct heap_part *p, int source, int64_t first, int64_t n,
                          uint8_t *out)
{
    const struct rope_plan *r = p->sources[0];
    memset(out, 0, p->row_bytes);
    memcpy(out, r->inv_freq, (size_t)r->n_dims / 2 * sizeof(float));
}

static void fill_biases(const struct heap_part *p, int source, int64_t first, int64_t n,
                        uint8_t *out)
{
    const struct vector *v = p->sources[source];
    if (v->at)
        memcpy(out, v->at + first, (size_t)n * sizeof(float));
    else
        memset(out, 0, (size_t)n * sizeof(float));
}

/* Vectors below each other, as the rows of a stack are; an absent one is zeros. */
static bool plan_biases(struct heap *h, const struct vector *const *v, const int64_t *rows, int n,
                        VkDeviceAddress *address, struct err *e)
{
    struct heap_part part = {.address = address, .fill = fill_biases, .row_bytes = sizeof(float)};
    bool any = false;
    for (int i = 0; i < n; i++) {
        part.sources[i] = v[i];
        part.rows[i] = rows[i];
        part.bytes += (uint64_t)rows[i] * sizeof(float);
        any = any || v[i]->at;
    }
    return !any || heap_plan(h, &part, e);
}

/* n matrices of as many columns, with biases or without (NULL), as stacks of neighbours that are
 * packed alike. */
static bool plan_stacks(struct heap *h, const struct weight *const *w,
                        const struct vector *const *bias, int n, struct device_matrix *stacks,
                        VkDeviceAddress *biases, int *n_stacks, struct err *e)
{
    *n_stacks = 0;
    for (int at = 0, like; at < n; at += like, ++*n_stacks) {
        struct device_layout first, other;
        int64_t rows[HEAP_SOURCES] = {w[at]->rows};
        if (!device_layout_of(w[at], &first, e))
            return false;
        for (like = 1; at + like < n && device_layout_of(w[at + like], &other, e) &&
                       device_layout_equal(&first, &other);
             like++)
            rows[like] = w[at + like]->rows;
        if (!device_matrix_plan(h, w + at, like, &stacks[*n_stacks], e) ||
            (bias && !plan_biases(h, bias + at, rows, like, &biases[*n_stacks], e)))
            return false;
    }
    return true;
}

static bool plan_attention(struct heap *h, const struct attention_plan *a, struct device_layer *l,
                           struct err *e)
{
    const struct weight *w[3] = {&a->wq, &a->wk, &a->wv};
    const struct vector *bias[3] = {&a->bq, &a->bk, &a->bv};
    struct heap_part freq = {
        .address = &l->inv_freq, .fill = fill_inv_freq, .sources = {&a->rope}, .rows = {1}};
    freq.bytes = freq.row_bytes = padded_bytes(a->rope.n_dims / 2 + 1);
    if (!plan_stacks(h, w, bias, 3, l->qkv, l->b_qkv, &l->n_qkv, e))
        return false;
    return plan_vector(h, &a->q_norm, &l->q_norm, e) && plan_vector(h, &a->k_norm, &l->k_norm, e) &&
           plan_vector(h, &a->sinks, &l->sinks, e) && plan_vector(h, &a->bo, &l->bo, e) &&
           plan_matrix(h, &a->wo, &l->wo, e) && heap_plan(h, &freq, e);
}

static bool plan_delta_net(struct heap *h, const struct delta_net_plan *p, struct device_layer *l,
                           struct err *e)
{
    const struct weight *w[4] = {&p->w_qkv, &p->w_z, &p->w_a, &p->w_b};
    struct device_delta_net *d = &l->delta_net;
    if (p->d_k % 32 || p->d_v % 32 || p->d_k > 256 || p->d_v > 256 || p->n_conv < 2 ||
        p->n_v_head % p->n_k_head) {
        return err_set(
            e, ERR_UNSUPPORTED,
            "DeltaNet with %d key heads of %d and %d value heads of %d has no Vulkan kernel",
            p->n_k_head, p->d_k, p->n_v_head, p->d_v);
    }
    if (!plan_stacks(h, w, NULL, 4, d->in, NULL, &d->n_in, e))
        return false;
    return plan_vector(h, &p->conv, &d->conv, e) && plan_vector(h, &p->a_log, &d->a_log, e) &&
           plan_vector(h, &p->dt_bias, &d->dt_bias, e) && plan_vector(h, &p->norm, &d->norm, e) &&
           plan_matrix(h, &p->w_out, &l->wo, e);
}

static bool layouts_of_gate_up(const struct weight *gate, const struct weight *up,
                               struct device_layout *l, struct err *e)
{
    struct device_layout other;
    if (!device_layout_of(gate, l, e) || !device_layout_of(up, &other, e))
        return false;
    return device_layout_equal(l, &other) ||
           err_set(e, ERR_UNSUPPORTED, "%s and %s are packed differently", gate->name, up->name);
}

/* Gates and ups in one stack, so that one address reaches both. */
static bool plan_gate_up(struct heap *h, const struct weight *gate, const struct weight *up,
                         const struct vector *b_gate, const struct vector *b_up,
                         struct device_mlp *m, struct err *e)
{
    const struct weight *w[2] = {gate, up};
    const struct vector *bias[2] = {b_gate, b_up};
    const int64_t rows[2] = {(int64_t)gate->n_matrix * gate->rows,
                             (int64_t)up->n_matrix * up->rows};
    struct device_layout layout;
    if (!layouts_of_gate_up(gate, up, &layout, e))
        return false;
    if (!device_matrix_plan(h, w, 2, &m->gate_up, e) ||
        !plan_biases(h, bias, rows, 2, &m->b_gate_up, e)) {
        return false;
    }
    m->gate_up.rows = (uint32_t)gate->rows;
    m->d_ff = (uint32_t)gate->rows;
    return true;
}

static bool plan_mlp(struct heap *h, const struct mlp_plan *p, struct device_mlp *m, struct err *e)
{
    return plan_gate_up(h, &p->gate, &p->up, &p->b_gate, &p->b_up, m, e) &&
           plan_matrix(h, &p->down, &m->down, e) && plan_vector(h, &p->b_down, &m->b_down, e);
}

/* Rows of records: an expert's gate, then its up. */
static void fill_records(const struct heap_part *p, int source, int64_t first, int64_t n,
                         uint8_t *out)
{
    const struct device_experts *x = p->sources[source];
    const int64_t rows = x->gate->rows;
    for (int64_t i = first, here; i < first + n; i += here, out += here * p->row_bytes) {
        const int64_t expert = i / (2 * rows), row = i % rows;
        here = rows - row < first + n - i ? rows - row : first + n - i;
        device_layout_rows(
            i / rows % 2 ? x->up : x->gate, p->extra,
            &(struct device_rows){.plane = p->plane, .first = expert * rows + row, .n = here}, out);
    }
}

/* Routed experts in host memory and in slots; which: 0 records, 1 down. */
static bool plan_split_experts(struct device_model *d, struct device_experts *x, int which,
                               struct device_matrix *m, const struct weight *w, struct err *e)
{
    const int64_t rows = (int64_t)w->rows * (which ? 1 : 2);
    m->rows = (uint32_t)w->rows;
    m->n_matrix = (uint32_t)w->n_matrix;
    for (int plane = 0; plane < DEVICE_PLANES; plane++) {
        struct heap_part part = {.address = &x->host[which][plane],
                                 .fill = which ? fill_rows : fill_records,
                                 .sources = {which ? (const void *)w : (const void *)x},
                                 .rows = {rows * w->n_matrix},
                                 .extra = &m->layout,
                                 .plane = plane,
                                 .row_bytes = m->layout.row_bytes[plane]};
        struct heap_part slots = {.address = &x->slot[which][plane]};
        x->each[which][plane] = (uint64_t)rows * part.row_bytes;
        if (part.row_bytes == 0)
            continue;
        if (x->each[which][plane] % 16) {
            return err_set(e, ERR_UNSUPPORTED,
                           "%s: experts of %" PRId64 " rows can't be placed one by one", w->name,
                           rows);
        }
        part.bytes = x->each[which][plane] * (uint64_t)w->n_matrix;
        slots.bytes = x->each[which][plane] * (uint64_t)d->n_slots;
        if ((!d->pooled && !heap_plan(&d->host, &part, e)) || !heap_plan(&d->slots, &slots, e))
            return false;
    }
    return true;
}

static bool plan_moe_split(struct device_model *d, const struct moe_plan *p, struct device_layer *l,
                           struct err *e)
{
    struct device_mlp *m = &l->mlp;
    const struct vector *bias[2] = {&p->b_gate, &p->b_up};
    const int64_t rows[2] = {(int64_t)p->gate.n_matrix * p->gate.rows,
                             (int64_t)p->up.n_matrix * p->up.rows};
    l->split_experts.gate = &p->gate;
    l->split_experts.up = &p->up;
    l->split_experts.down = &p->down;
    m->d_ff = (uint32_t)p->gate.rows;
    if (!layouts_of_gate_up(&p->gate, &p->up, &m->gate_up.layout, e) ||
        !device_layout_of(&p->down, &m->down.layout, e)) {
        return false;
    }
    device_layout_keep_codes(&m->gate_up.layout);
    device_layout_keep_codes(&m->down.layout);
    return plan_split_experts(d, &l->split_experts, 0, &m->gate_up, &p->gate, e) &&
           plan_split_experts(d, &l->split_experts, 1, &m->down, &p->down, e) &&
           plan_biases(&d->heap, bias, rows, 2, &m->b_gate_up, e);
}

/* Device bytes of one expert. */
static uint64_t expert_bytes(const struct moe_plan *p)
{
    const struct weight *w[3] = {&p->gate, &p->up, &p->down};
    struct device_layout l;
    struct err ignored = {0};
    uint64_t sum = 0;
    for (int i = 0; i < 3; i++) {
        if (device_layout_of(w[i], &l, &ignored)) {
            sum +=
                ((uint64_t)l.row_bytes[0] + l.row_bytes[1] + l.row_bytes[2]) * (uint64_t)w[i]->rows;
        }
    }
    return sum;
}

int32_t device_model_most_experts(const struct model_plan *plan)
{
    int32_t most = 0;
    for (int i = 0; i < plan->n_layer; i++)
        if (plan->layers[i].ffn == FFN_MOE && plan->layers[i].moe.n_expert > most)
            most = plan->layers[i].moe.n_expert;
    return most;
}

uint64_t device_experts_record(const struct device_experts *x)
{
    uint64_t sum = 0;
    for (int which = 0; which < 2; which++)
        for (int i = 0; i < DEVICE_PLANES; i++)
            sum += x->each[which][i];
    return sum;
}

/* Sets n_slots to as many of every layer as the bytes make; it stays 0 where all experts fit. */
static bool count_slots(struct device_model *m, const struct model_plan *plan, uint64_t bytes,
                        struct err *e)
{
    uint64_t one = 0, rounding = 0; /* a slot in each layer */
    for (int i = 0; i < plan->n_layer; i++) {
        const struct moe_plan *p = &plan->layers[i].moe;
        if (plan->layers[i].ffn == FFN_MOE) {
            one += expert_bytes(p);
            rounding += 2 * DEVICE_PLANES * (uint64_t)256; /* of the heap's parts */
        }
    }
    const int32_t most = device_model_most_experts(plan);
    const bool all = bytes >= one * (uint64_t)most + rounding;
    if (one == 0 || (!m->pooled && (bytes == 0 || all)))
        return true;
    m->n_slots = all ? most : bytes > rounding ? (int32_t)((bytes - rounding) / one) : 0;
    return m->n_slots > 0 ||
           err_set(e, ERR_LIMIT,
                   "%" PRIu64
                   " bytes of device memory for experts; one of each layer takes %" PRIu64,
                   bytes, one + rounding);
}

/* The shared expert's down matrix is packed as the routed ones', for one shader may multiply both.
 */
static bool plan_shared(struct device_model *d, const struct moe_plan *p, struct device_layer *l,
                        struct err *e)
{
    if (!plan_mlp(&d->heap, &p->shared, &l->shared, e))
        return false;
    if (d->n_slots)
        device_layout_keep_codes(&l->shared.down.layout); /* read when it is filled */
    return true;
}

static bool plan_moe(struct device_model *d, const struct moe_plan *p, struct device_layer *l,
                     struct err *e)
{
    struct heap *h = &d->heap;
    struct device_mlp *m = &l->mlp;
    bool placed = d->n_slots ? plan_moe_split(d, p, l, e)
                             : plan_gate_up(h, &p->gate, &p->up, &p->b_gate, &p->b_up, m, e) &&
                                   plan_matrix(h, &p->down, &m->down, e);
    return placed && plan_vector(h, &p->b_down, &m->b_down, e) &&
           plan_matrix(h, &p->router, &l->router, e) &&
           plan_vector(h, &p->router_bias, &l->router_bias, e) &&
           plan_vector(h, &p->select_bias, &l->select_bias, e) &&
           plan_matrix(h, &p->shared_gate, &l->shared_gate, e) &&
           (!p->has_shared || plan_shared(d, p, l, e));
}

/* Rows of the router, and below them the shared expert's gate, times their norm's weight. */
static void fill_router_x(const struct heap_part *p, int source, int64_t first, int64_t n,
                          uint8_t *out)
{
    const struct layer_plan *l = p->sources[source];
    for (int64_t i = first; i < first + n; i++, out += p->row_bytes) {
        float *row = (float *)(void *)out;
        memset(row, 0, p->row_bytes);
        if (i < l->moe.router.rows)
            weight_row_f32(&l->moe.router, 0, (int32_t)i, row);
        else
            weight_row_f32(&l->moe.shared_gate, 0, 0, row);
        for (int32_t c = 0; c < l->moe.router.cols; c++)
            row[c] *= l->ffn_norm.at[c];
    }
}

/* What stands for the router in steps of few rows. Layers whose logits or mixers have biases keep
 * the router alone. */
static bool plan_router_fold(struct heap *h, const struct layer_plan *p, struct device_layer *l,
                             struct err *e)
{
    const struct moe_plan *m = &p->moe;
    const bool attends = p->mixer == MIXER_ATTENTION;
    const struct weight *wo = attends ? &p->attention.wo : &p->delta_net.w_out;
    if (m->router_bias.at || (attends && p->attention.bo.at) || !p->ffn_norm.at)
        return true;
    struct device_matrix *to[2] = {&l->router_x, &l->router_mixed};
    for (int i = 0; i < 2; i++) {
        const struct weight like = {.type = WEIGHT_F32,
                                    .rows = m->router.rows + (m->shared_gate.type != WEIGHT_NONE),
                                    .cols = i ? wo->cols : m->router.cols,
                                    .n_matrix = 1};
        if (!device_layout_of(&like, &to[i]->layout, e))
            return false;
        to[i]->rows = (uint32_t)like.rows;
        to[i]->n_matrix = 1;
        struct heap_part part = {.address = &to[i]->plane[0],
                                 .fill = i ? NULL : fill_router_x,
                                 .sources = {p},
                                 .rows = {like.rows},
                                 .row_bytes = to[i]->layout.row_bytes[0]};
        part.bytes = (uint64_t)like.rows * part.row_bytes;
        if (!heap_plan(h, &part, e))
            return false;
    }
    return true;
}

static bool plan_layer(struct device_model *d, const struct layer_plan *p, struct device_layer *l,
                       struct err *e)
{
    struct heap *h = &d->heap;
    if (!plan_vector(h, &p->mixer_norm, &l->mixer_norm, e) ||
        !plan_vector(h, &p->ffn_norm, &l->ffn_norm, e) ||
        !(p->mixer == MIXER_ATTENTION ? plan_attention(h, &p->attention, l, e)
                                      : plan_delta_net(h, &p->delta_net, l, e))) {
        return false;
    }
    if (p->ffn == FFN_MOE && d->folds_routers && !plan_router_fold(h, p, l, e))
        return false;
    return p->ffn == FFN_MOE ? plan_moe(d, &p->moe, l, e) : plan_mlp(h, &p->dense, &l->mlp, e);
}

bool device_model_plan(struct device_model *m, const struct model_plan *plan, uint64_t slot_bytes,
                       bool pooled, struct err *e)
{
    m->pooled = pooled;
    m->layers = calloc((size_t)plan->n_layer, sizeof *m->layers);
    if (!m->layers)
        return err_set(e, ERR_NOMEM, "no memory for %d layers", plan->n_layer);
    if (!count_slots(m, plan, slot_bytes, e) || !plan_matrix(&m->heap, &plan->embed, &m->embed, e))
        return false;
    for (int i = 0; i < plan->n_layer; i++)
        if (!plan_layer(m, &plan->layers[i], &m->layers[i], e))
            return err_prefix(e, "layer %d", i);
    if (plan->head.data != plan->embed.data && !plan_matrix(&m->heap, &plan->head, &m->head, e))
        return false;
    return plan_vector(&m->heap, &plan->final_norm, &m->final_norm, e);
}

void device_model_fini(struct device_model *m, struct gpu *g)
{
    heap_fini(&m->heap, g);
    heap_fini(&m->host, g);
    heap_fini(&m->slots, g);
    free(m->layers);
    memset(m, 0, sizeof *m);
}
