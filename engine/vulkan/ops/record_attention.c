/* Records the ops between the projections and `wo`: positions into heads, keys and values into the
 * cache, attention row by row. Attention by tiles is in record_gemm.c. */
#include "engine/vulkan/ops/dispatch.h"

static void spec_rope(const struct recorder *r, uint32_t *spec, const struct attention_plan *a)
{
    spec[SPEC_D_HEAD] = (uint32_t)a->d_head;
    spec[SPEC_N_ROPE] = (uint32_t)a->rope.n_dims;
    spec[SPEC_INTERLEAVED] = a->rope.interleaved;
    spec[SPEC_HEAD_NORM] = a->q_norm.at != NULL;
    spec[SPEC_KV_F32] = r->b->params.exact;
    spec[SPEC_KV_TYPE] = r->b->kv_type;
}

void record_rope_kv(struct recorder *r, const struct attention_plan *a,
                    const struct device_layer *l)
{
    const struct push_rope_kv push = {
        .qkv = r->b->workspace.qkv,
        .q_norm = l->q_norm,
        .k_norm = l->k_norm,
        .inv_freq = l->inv_freq,
        .rows = r->b->step.at_rows,
        .tables = r->b->step.at_tables,
        .kv = l->kv,
        .stride = r->b->sizes.qkv,
        .n_head = (uint32_t)a->n_head,
        .n_kv_head = (uint32_t)a->n_kv_head,
        .q_step = (uint32_t)(a->d_head * (a->output_gate ? 2 : 1)),
        .eps = r->b->plan->norm_eps,
        .rope_scale = a->rope.scale,
    };
    struct dispatch d = {.shader = "rope_kv",
                         .spec = {[SPEC_THREADS] = r->b->gpu.caps.subgroup},
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = (uint32_t)(a->n_head + 2 * a->n_kv_head),
                         .y = r->n_rows,
                         .z = 1};
    spec_rope(r, d.spec, a);
    dispatch_op(r, &d);
}

#define ATTN_SHARED (44u << 10) /* of attn_coop.comp, at most */
#define ROUND_BYTES 16384       /* of shared memory for sums over the subgroups */
#define MOST_SUMS 64            /* of four columns each, of a thread: attn.comp's sum4 */

/* Of a workgroup. Many share what they read; few leave less of the device idle while they wait. */
#define MOST_HEADS 8
#define FEW_HEADS 2 /* also a software GPU's, whose compiler takes 8 s for eight */

struct attention_form {
    uint32_t lanes;   /* threads that share a token's columns, 8 or a multiple of them each */
    uint32_t heads;   /* query heads of a workgroup */
    uint32_t groups;  /* workgroups for a KV head's query heads */
    uint32_t threads; /* of a workgroup */
    uint32_t subgroups;
    uint32_t round; /* heads whose sums over the subgroups are in shared memory at a time */
};

static uint32_t shared_bytes(const struct attention_form *f, uint32_t d_head)
{
    const uint32_t heads = 2 * f->heads + 2 + f->subgroups * f->round,
                   clusters = f->threads / f->lanes;
    return heads * d_head * 4 + clusters * f->heads * 24 + d_head * 4 + 1024;
}

static struct attention_form form_of(const struct attention_plan *a, const struct gpu_caps *c,
                                     uint32_t most_heads)
{
    const uint32_t group = (uint32_t)(a->n_head / a->n_kv_head), d_head = (uint32_t)a->d_head;
    struct attention_form f = {.lanes = 1, .heads = 1};
    while (f.lanes * 2 <= c->subgroup && d_head % (f.lanes * 16) == 0)
        f.lanes *= 2;
    while (f.heads < group && f.heads < most_heads && f.heads < f.lanes &&
           f.heads * 2 * (d_head / f.lanes / 4) <= MOST_SUMS)
        f.heads *= 2;
    f.threads = f.lanes * 8 > c->subgroup ? f.lanes * 8 : c->subgroup;
    f.subgroups = f.threads / c->subgroup;
    f.round = f.heads;
    while (f.round > 1 && (f.subgroups * f.round * d_head * 4 > ROUND_BYTES ||
                           shared_bytes(&f, d_head) > c->max_shared))
        f.round /= 2;
    for (; f.heads > 1 && shared_bytes(&f, d_head) > c->max_shared; f.heads /= 2)
        ;
    f.groups = divide_up(group, f.heads);
    return f;
}

#define UNIT_COLUMNS 128 /* of a head */

/* Whether attn_units takes a step's rows: heads and a cache that it is written for, and contexts
 * deep enough. One row and packed rows gain behind any: attn.comp rotates in shared memory. It
 * waits for no count, so chained rows must. */
static bool units_fit(const struct recorder *r, const struct attention_plan *a,
                      const struct attention_op *op)
{
    const struct backend *b = r->b;
    const bool any = r->n_rows == 1 || op->chained || b->kv_type == KV_Q8;
    return b->tuning.few != WIDE_NONE && (any || op->n_splits >= b->tuning.unit_splits) &&
           a->d_head == UNIT_COLUMNS && a->n_head / a->n_kv_head <= MOST_HEADS &&
           (b->kv_type == KV_F16 || b->kv_type == KV_Q8);
}

/* Query heads of a workgroup that has a row's only split: with this position's key and value as
 * many heads to turn as it has subgroups. */
#define ONLY_HEADS 2

/* Of a workgroup of attn_units, and splits of a context at most. With q8 a split is short: for
 * one row more threads in fewer workgroups leave less to prepare and to merge (33 splits of four KV
 * heads make as many workgroups as an H100 has multiprocessors). */
#define UNIT_THREADS 128
#define UNIT_THREADS_Q8 256
#define UNIT_SHARED_Q8 (40u << 10) /* bytes that so many threads share; half as many: 24 KiB */
#define UNIT_SPLITS_Q8 33u

static struct attention_form units_form(const struct recorder *r, const struct attention_plan *a,
                                        const struct attention_op *op)
{
    const struct backend *b = r->b;
    const struct gpu_caps *c = &b->gpu.caps;
    const bool many = b->kv_type == KV_Q8 && r->n_rows == 1 && op->n_splits > 1 &&
                      c->max_shared >= UNIT_SHARED_Q8;
    const uint32_t threads = many ? UNIT_THREADS_Q8 : UNIT_THREADS;
    const uint32_t group = (uint32_t)(a->n_head / a->n_kv_head),
                   most = op->n_splits == 1 && (r->n_rows == 1 || op->chained) ? ONLY_HEADS
                                                                               : MOST_HEADS;
    struct attention_form f = {.lanes = c->subgroup < 32 ? c->subgroup : 32,
                               .heads = 1,
                               .threads = threads,
                               .subgroups = threads / c->subgroup};
    while (f.heads < group && f.heads < most)
        f.heads *= 2;
    f.groups = divide_up(group, f.heads);
    return f;
}

uint32_t record_most_splits(const struct backend *b, int32_t n_rows)
{
    if (n_rows > (int32_t)b->sizes.decode_rows)
        return ATTENTION_FEW_SPLITS;
    const bool units =
        b->tuning.few != WIDE_NONE && b->kv_type == KV_Q8 && b->sizes.d_head == UNIT_COLUMNS;
    return units && b->sizes.max_splits > UNIT_SPLITS_Q8 ? UNIT_SPLITS_Q8 : b->sizes.max_splits;
}

uint32_t record_splits(const struct backend *b, int32_t n_rows, int32_t position)
{
    /* A row that is less deep, or sees a window alone, may have more: 132 blocks of 4 and more are
     * 33 splits, 133 are 27. */
    const uint32_t blocks = (uint32_t)position / BACKEND_BLOCK_TOKENS + 1,
                   splits = divide_up(blocks, b->tuning.split_blocks),
                   most = record_most_splits(b, n_rows);
    return splits < most ? splits : most;
}

static struct attention_form form_for(const struct recorder *r, const struct attention_plan *a,
                                      const struct attention_op *op)
{
    /* Many rows make workgroups enough, so that more heads may share what one reads. */
    const struct backend *b = r->b;
    const uint32_t deep_splits = r->n_rows < 8 ? b->tuning.deep_splits : b->tuning.unit_splits;
    const bool deep = op->n_splits >= deep_splits && !b->gpu.caps.software;
    return units_fit(r, a, op) ? units_form(r, a, op)
                               : form_of(a, &b->gpu.caps, deep ? MOST_HEADS : FEW_HEADS);
}

uint32_t record_attention_groups(const struct recorder *r, const struct attention_plan *a,
                                 const struct attention_op *op)
{
    return (uint32_t)a->n_kv_head * form_for(r, a, op).groups;
}

static bool is_plain(const struct attention_plan *a)
{
    return !a->window && !a->output_gate && !a->sinks.at;
}

uint32_t record_merge_inside(const struct recorder *r, const struct attention_plan *a,
                             uint32_t n_splits)
{
    const struct backend *b = r->b;
    const bool packed = kv_type_packed(b->kv_type);
    const uint32_t group = (uint32_t)(a->n_head / a->n_kv_head), quads = (uint32_t)a->d_head / 4,
                   splits = record_most_splits(b, (int32_t)r->n_rows),
                   blocks = b->tuning.split_blocks;
    const struct attention_form f = form_for(r, a, &(struct attention_op){.n_splits = n_splits});
    /* A subgroup rotates a head. */
    const bool fits = a->d_head % 4 == 0 && quads < 64 && group < 32 && f.heads < 16 &&
                      splits < 256 && blocks < 256 &&
                      (!packed || (quads <= b->gpu.caps.subgroup && !(quads & (quads - 1))));
    if (n_splits < 2 || !is_plain(a) || !fits)
        return 0;
    return splits | blocks << 8 | group << 16 | f.heads << 21 | quads << 25 |
           (uint32_t)packed << 31;
}

bool record_chain_fits(const struct recorder *r, uint32_t n_splits)
{
    const struct model_plan *plan = r->b->plan;
    const struct attention_op op = {.n_splits = n_splits, .chained = true};
    bool fits = r->n_rows == 1 || n_splits == 1;
    for (int i = 0; fits && i < plan->n_layer; i++) {
        const struct attention_plan *a = &plan->layers[i].attention;
        fits = plan->layers[i].mixer == MIXER_ATTENTION && units_fit(r, a, &op) && is_plain(a) &&
               a->rope.n_dims == UNIT_COLUMNS && !a->rope.interleaved &&
               (n_splits < 2 || record_merge_inside(r, a, n_splits));
    }
    return fits;
}

#define MERGE_THREADS 256

/* What several splits of a row left, into workspace.attn. */
static void record_merge(struct recorder *r, const struct attention_plan *a,
                         const struct device_layer *l, const struct dispatch *attention)
{
    const struct workspace *w = &r->b->workspace;
    const struct push_attn_merge push = {
        .qkv = w->qkv,
        .sinks = l->sinks,
        .outs = attention->spec[SPEC_HALVES_OUT] ? w->x_hi : w->attn,
        .rows = record_rows(r),
        .parts = w->parts,
        .stride = r->b->sizes.qkv,
        .n_head = (uint32_t)a->n_head,
        .q_step = (uint32_t)(a->d_head * (a->output_gate ? 2 : 1)),
        .window = (uint32_t)a->window,
        .n_splits = attention->x,
    };
    struct dispatch d = *attention;
    d.shader = "attn_merge";
    d.spec[SPEC_THREADS] = d.spec[SPEC_ATTN_THREADS] = MERGE_THREADS;
    d.spec[SPEC_SUBGROUPS] = MERGE_THREADS / r->b->gpu.caps.subgroup;
    d.push = &push;
    d.push_bytes = sizeof push;
    d.x = (uint32_t)a->n_head;
    d.y = r->n_rows;
    d.z = 1;
    record_barrier(r);
    dispatch_op(r, &d);
}

void record_attention(struct recorder *r, const struct attention_plan *a,
                      const struct device_layer *l, const struct attention_op *op)
{
    const struct workspace *w = &r->b->workspace;
    const struct push_attn push = {
        .qkv = w->qkv,
        .q_norm = l->q_norm,
        .k_norm = l->k_norm,
        .inv_freq = l->inv_freq,
        .sinks = l->sinks,
        .outs = op->halves ? w->x_hi : w->attn,
        .rows = record_rows(r),
        .tables = r->b->step.at_tables,
        .kv = l->kv,
        .parts = w->parts,
        .meetings = w->meetings + (uint64_t)op->layer * RESIDENT_MEETING_WORDS * 4,
        .stride = r->b->sizes.qkv,
        .n_head = (uint32_t)a->n_head,
        .n_kv_head = (uint32_t)a->n_kv_head,
        .q_step = (uint32_t)(a->d_head * (a->output_gate ? 2 : 1)),
        .window = (uint32_t)a->window,
        .awaited = op->layer > 0 ? r->b->tuning.resident_groups : 0,
        .eps = r->b->plan->norm_eps,
        .rope_scale = a->rope.scale,
        .scale = a->scale,
    };
    const bool units = units_fit(r, a, op);
    const struct attention_form f = form_for(r, a, op);
    struct dispatch d = {.shader = !units                              ? "attn"
                                   : r->b->tuning.few == WIDE_EMULATED ? "attn_units_emulated"
                                                                       : "attn_units",
                         .spec = {[SPEC_THREADS] = f.threads,
                                  [SPEC_GROUP] = (uint32_t)(a->n_head / a->n_kv_head),
                                  [SPEC_PREP] = op->prep,
                                  [SPEC_GATE] = a->output_gate,
                                  [SPEC_SINKS] = a->sinks.at != NULL,
                                  [SPEC_ATTN_THREADS] = f.threads,
                                  [SPEC_MIN_BLOCKS] = r->b->tuning.split_blocks,
                                  [SPEC_MAX_SPLITS] = record_most_splits(r->b, (int32_t)r->n_rows),
                                  [SPEC_CLUSTER] = f.lanes,
                                  [SPEC_HEADS] = f.heads,
                                  [SPEC_SUBGROUPS] = f.subgroups,
                                  [SPEC_ROUND] = f.round,
                                  [SPEC_HALVES_OUT] = op->halves},
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = op->n_splits,
                         .y = (uint32_t)a->n_kv_head * f.groups,
                         .z = r->n_rows};
    spec_rope(r, d.spec, a);
    if (units) {
        d.spec[SPEC_CHAINED] = op->chained;
        d.spec[SPEC_MATRIX_M] = d.spec[SPEC_MATRIX_K] = MATRIX_SIDE;
        d.spec[SPEC_MATRIX_N] = MATRIX_FEW;
    }
    dispatch_op(r, &d);
    if (op->n_splits > 1 && !op->merge)
        record_merge(r, a, l, &d);
}

void record_attention_rotate(struct recorder *r, const struct attention_plan *a)
{
    const struct push_attn_rotate push = {
        .qkv = r->b->workspace.qkv,
        .outs = r->b->workspace.attn,
        .rows = r->b->step.at_rows,
        .stride = r->b->sizes.qkv,
        .n_head = (uint32_t)a->n_head,
        .q_step = (uint32_t)(a->d_head * (a->output_gate ? 2 : 1)),
    };
    struct dispatch d = {.shader = "attn_rotate",
                         .spec = {[SPEC_THREADS] = r->b->gpu.caps.subgroup,
                                  [SPEC_GATE] = a->output_gate,
                                  [SPEC_D_HEAD] = (uint32_t)a->d_head,
                                  [SPEC_KV_TYPE] = r->b->kv_type},
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = (uint32_t)a->n_head,
                         .y = r->n_rows,
                         .z = 1};
    dispatch_op(r, &d);
}

/* On the matrix units heads of over 128 columns are done in two halves of their values. */
static bool head_fits(int32_t d_head, bool units)
{
    return d_head >= 64 && d_head % 32 == 0 &&
           (d_head <= 128 || (units && d_head <= 256 && d_head % 64 == 0));
}

static bool attends_on_units(const struct backend *b)
{
    return b->gpu.caps.cooperative_matrix && b->gpu.caps.max_shared >= ATTN_SHARED;
}

bool record_tiled_attention_fits(const struct backend *b)
{
    const struct model_plan *plan = b->plan;
    const bool units = attends_on_units(b);
    if (b->params.exact || (!units && b->gpu.caps.max_shared < 32 << 10))
        return false;
    for (int i = 0; i < plan->n_layer; i++) {
        const struct attention_plan *a = &plan->layers[i].attention;
        if (plan->layers[i].mixer == MIXER_ATTENTION &&
            (!head_fits(a->d_head, units) ||
             (uint32_t)(a->n_head / a->n_kv_head) != b->sizes.group)) {
            return false;
        }
    }
    return b->sizes.group <= 16;
}

void record_tiled_attention(struct recorder *r, const struct attention_plan *a,
                            const struct device_layer *l, uint32_t n_tiles)
{
    const struct step_memory *s = &r->b->step;
    const struct push_attn_tiled push = {
        .qkv = r->b->workspace.qkv,
        .sinks = l->sinks,
        .outs = r->b->workspace.attn,
        .rows = s->at_rows,
        .tiles = r->wanted_alone ? s->at_last_tiles : s->at_tiles,
        .tables = s->at_tables,
        .kv = l->kv,
        .stride = r->b->sizes.qkv,
        .n_head = (uint32_t)a->n_head,
        .n_kv_head = (uint32_t)a->n_kv_head,
        .q_step = (uint32_t)(a->d_head * (a->output_gate ? 2 : 1)),
        .window = (uint32_t)a->window,
        .scale = a->scale,
    };
    struct dispatch d = {.shader = attends_on_units(r->b) ? "attn_coop" : "attn_plain",
                         .spec = {[SPEC_THREADS] = 128,
                                  [SPEC_GROUP] = (uint32_t)(a->n_head / a->n_kv_head),
                                  [SPEC_GATE] = a->output_gate && !kv_type_packed(r->b->kv_type),
                                  [SPEC_SINKS] = a->sinks.at != NULL},
                         .push = &push,
                         .push_bytes = sizeof push,
                         .x = (uint32_t)a->n_kv_head,
                         .y = n_tiles,
                         .z = a->d_head > 128 ? 2 : 1};
    d.spec[SPEC_D_HEAD] = (uint32_t)a->d_head;
    d.spec[SPEC_KV_TYPE] = r->b->kv_type;
    d.spec[SPEC_MATRIX_M] = d.spec[SPEC_MATRIX_N] = d.spec[SPEC_MATRIX_K] = MATRIX_SIDE;
    dispatch_op(r, &d);
}
