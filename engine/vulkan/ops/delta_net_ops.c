/* Records the dispatches of gated DeltaNet, and converts its state to the published layout for
 * tests. */
#include "engine/vulkan/ops/delta_net_ops.h"

#include "engine/vulkan/ops/dispatch.h"

#define SCAN_COLUMNS 32 /* of a head for a workgroup: the same as in delta_scan.comp */

int32_t delta_net_channels(const struct delta_net_plan *p)
{
    return 2 * p->n_k_head * p->d_k + p->n_v_head * p->d_v;
}

static uint64_t conv_values(const struct delta_net_plan *p)
{
    return (uint64_t)p->n_conv * (uint64_t)delta_net_channels(p);
}

uint64_t delta_net_state_bytes(const struct delta_net_plan *p)
{
    return 4 * (conv_values(p) + (uint64_t)p->n_v_head * (uint64_t)p->d_k * (uint64_t)p->d_v);
}

/* Threads that share a column of the state: neighbours of a subgroup. */
static uint32_t share_of(const struct recorder *r)
{
    const uint32_t subgroup = r->b->gpu.caps.subgroup;
    return subgroup < DELTA_SHARE ? subgroup : DELTA_SHARE;
}

void delta_net_spec(const struct recorder *r, uint32_t *spec, const struct delta_net_plan *p)
{
    spec[SPEC_DELTA_SHARE] = share_of(r);
    spec[SPEC_DK] = (uint32_t)p->d_k;
    spec[SPEC_DV] = (uint32_t)p->d_v;
    spec[SPEC_CONV] = (uint32_t)p->n_conv;
    spec[SPEC_TILED] = p->tiled_heads;
    spec[SPEC_N_K] = (uint32_t)p->n_k_head;
    spec[SPEC_N_V] = (uint32_t)p->n_v_head;
}

/* Workgroups are whole subgroups; threads without a value only help to sum. */
static void spec_delta_net(const struct recorder *r, uint32_t *spec, uint32_t threads,
                           const struct delta_net_plan *p)
{
    const uint32_t subgroup = r->b->gpu.caps.subgroup;
    spec[SPEC_THREADS] = divide_up(threads, subgroup) * subgroup;
    delta_net_spec(r, spec, p);
}

static uint32_t z_at(const struct delta_net_plan *p)
{
    return (uint32_t)p->w_qkv.rows;
}

static uint32_t gates_at(const struct delta_net_plan *p)
{
    return z_at(p) + (uint32_t)p->w_z.rows;
}

/* Where the mixer's result goes. */
static VkDeviceAddress outs_of(const struct recorder *r, bool halves)
{
    return halves ? r->b->workspace.x_hi : r->b->workspace.attn;
}

static void record_step(struct recorder *r, const struct delta_net_plan *p,
                        const struct device_layer *l, bool halves, VkDeviceAddress advanced)
{
    const struct device_delta_net *d = &l->delta_net;
    const struct step_memory *s = &r->b->step;
    const struct push_delta_step push = {
        .x = r->b->workspace.qkv,
        .conv = d->conv,
        .a_log = d->a_log,
        .dt_bias = d->dt_bias,
        .weight = d->norm,
        .state = l->state,
        .outs = outs_of(r, halves),
        .rows = s->at_rows,
        .runs = s->at_runs,
        .advanced = advanced,
        .state_bytes = delta_net_state_bytes(p),
        .stride = r->b->sizes.qkv,
        .z_at = z_at(p),
        .gates_at = gates_at(p),
        .eps = r->b->plan->norm_eps,
    };
    struct dispatch one = {.shader = "delta_step",
                           .push = &push,
                           .push_bytes = sizeof push,
                           .x = (uint32_t)p->n_v_head,
                           .y = r->n_rows,
                           .z = 1};
    spec_delta_net(r, one.spec, share_of(r) * (uint32_t)p->d_v / DELTA_COLUMNS, p);
    one.spec[SPEC_DELTA_HALVES] = halves;
    one.spec[SPEC_DELTA_AGAIN] = advanced != 0;
    dispatch_op(r, &one);
}

static void record_conv(struct recorder *r, const struct delta_net_plan *p,
                        const struct device_layer *l)
{
    const struct device_delta_net *d = &l->delta_net;
    const struct step_memory *s = &r->b->step;
    const struct push_delta_conv push = {
        .x = r->b->workspace.qkv,
        .conv = d->conv,
        .a_log = d->a_log,
        .dt_bias = d->dt_bias,
        .state = l->state,
        .outs = r->b->workspace.convolved,
        .gate = r->b->workspace.gates,
        .rows = s->at_rows,
        .runs = s->at_runs,
        .state_bytes = delta_net_state_bytes(p),
        .stride = r->b->sizes.qkv,
        .gates_at = gates_at(p),
        .n_x = r->n_rows,
    };
    const uint32_t width = (uint32_t)(p->d_k > p->d_v ? p->d_k : p->d_v);
    struct dispatch one = {.shader = "delta_conv",
                           .push = &push,
                           .push_bytes = sizeof push,
                           .x = (uint32_t)(2 * p->n_k_head + p->n_v_head),
                           .y = divide_up(r->n_rows, DELTA_THREADS * 4 / width),
                           .z = 1};
    spec_delta_net(r, one.spec, DELTA_THREADS, p);
    dispatch_op(r, &one);
}

static void record_scan(struct recorder *r, const struct delta_net_plan *p,
                        const struct device_layer *l, uint32_t n_sequences)
{
    const struct push_delta_scan push = {
        .raw = r->b->workspace.qkv,
        .x = r->b->workspace.convolved,
        .gate = r->b->workspace.gates,
        .state = l->state,
        .outs = r->b->workspace.attn,
        .sequences = r->b->step.at_sequences,
        .state_bytes = delta_net_state_bytes(p),
        .raw_stride = r->b->sizes.qkv,
    };
    struct dispatch one = {.shader = "delta_scan",
                           .push = &push,
                           .push_bytes = sizeof push,
                           .x = (uint32_t)(p->n_v_head * p->d_v / SCAN_COLUMNS),
                           .y = n_sequences,
                           .z = 1};
    spec_delta_net(r, one.spec, share_of(r) * SCAN_COLUMNS / 2, p);
    dispatch_op(r, &one);
}

static void record_norm(struct recorder *r, const struct delta_net_plan *p,
                        const struct device_layer *l, bool halves)
{
    const struct push_delta_norm push = {
        .o = r->b->workspace.attn,
        .outs = outs_of(r, halves),
        .x = r->b->workspace.qkv,
        .weight = l->delta_net.norm,
        .rows = r->b->step.at_rows,
        .stride = r->b->sizes.qkv,
        .z_at = z_at(p),
        .eps = r->b->plan->norm_eps,
    };
    struct dispatch one = {
        .shader = "delta_norm",
        .push = &push,
        .push_bytes = sizeof push,
        .x = divide_up((uint32_t)p->n_v_head, DELTA_THREADS * 4 / (uint32_t)p->d_v),
        .y = r->n_rows,
        .z = 1};
    spec_delta_net(r, one.spec, DELTA_THREADS, p);
    one.spec[SPEC_DELTA_HALVES] = halves;
    dispatch_op(r, &one);
}

void delta_net_record(struct recorder *r, const struct delta_net_plan *p,
                      const struct device_layer *l, uint32_t n_sequences, bool halves,
                      VkDeviceAddress advanced)
{
    if (!n_sequences) {
        record_step(r, p, l, halves, advanced);
        return;
    }
    record_conv(r, p, l);
    record_barrier(r);
    record_scan(r, p, l, n_sequences);
    record_barrier(r);
    record_norm(r, p, l, halves);
}

/* Returns the place in our state of the published head h. */
static int32_t place_of(const struct delta_net_plan *p, int32_t h)
{
    int32_t each = p->n_v_head / p->n_k_head;
    return p->tiled_heads ? h % each * p->n_k_head + h / each : h;
}

void delta_net_show_state(const struct delta_net_plan *p, const float *state, int32_t n_past,
                          float *conv, float *recurrent)
{
    int32_t channels = delta_net_channels(p), first_v = 2 * p->n_k_head * p->d_k,
            taps = p->n_conv - 1;
    for (int32_t c = 0; c < channels; c++) {
        int32_t from = c < first_v ? c
                                   : first_v + place_of(p, (c - first_v) / p->d_v) * p->d_v +
                                         (c - first_v) % p->d_v;
        for (int32_t i = 0; i < taps; i++) {
            int32_t position = n_past - taps + i;
            conv[c * taps + i] = position < 0 ? 0 : state[position % p->n_conv * channels + from];
        }
    }
    for (int32_t h = 0; h < p->n_v_head; h++) {
        const float *head =
            state + conv_values(p) + (size_t)place_of(p, h) * (size_t)(p->d_k * p->d_v);
        for (int32_t k = 0; k < p->d_k; k++)
            for (int32_t v = 0; v < p->d_v; v++)
                *recurrent++ = head[v * p->d_k + k];
    }
}
