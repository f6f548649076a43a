/* Which shapes go by moe_up_units and moe_down_units, and how the work is divided; measured,
 * docs/speed/vulkan.md. */
#include "engine/vulkan/ops/dispatch.h"

#define UP_SLICES 8u    /* of a row's columns */
#define UP_THREADS 256u /* of a workgroup at most */
#define UP_DEPTH 2u     /* steps of weights on their way */
#define DOWN_SLICES 3u  /* of the columns of an expert */
#define DOWN_DEPTH 1u
#define STEP_CHUNKS 4u       /* of a step, of four threads */
#define STEP_BYTES 560u      /* of shared memory: x, its scales */
#define ROW_BYTES 4u         /* for each row of W and slice, and for each of its steps */
#define SHARED_RESERVE 8192u /* of the choice of experts, and what else there is */
#define MOST_EXPERTS 512u

/* The greatest divisor of n that is no more than `most`. */
static uint32_t divisor(uint32_t n, uint32_t most)
{
    uint32_t d = n < most ? n : most;
    while (n % d)
        d--;
    return d;
}

/* Tiles of 8 gates and their ups that 32 threads have at most: such that workgroups of the common
 * shape are as many as are resident together. Results depend on it by the order of the norm's sum
 * at most, where it changes how many threads a workgroup has. */
static uint32_t up_tiles(const struct recorder *r)
{
    return r->n_rows > 1 ? 4 : 3;
}

/* What both halves ask of an expert's matrix. Experts that lie in different places keep the other
 * kernels, whose reads from host memory are longer; with a shared expert it was not measured. */
static bool fits(const struct recorder *r, const struct mlp_op *op, const struct device_matrix *m)
{
    return r->b->tuning.few != WIDE_NONE && !r->b->params.exact && op->moe &&
           !op->moe->has_shared && !op->layer->split_experts.table && dispatch_by_masks(m) &&
           m->layout.n_chunk % STEP_CHUNKS == 0;
}

static void take(const struct recorder *r, struct dispatch *d, bool up, uint32_t threads)
{
    const bool emulated = r->b->tuning.few == WIDE_EMULATED;
    d->shader = up         ? emulated ? "moe_up_units_emulated" : "moe_up_units"
                : emulated ? "moe_down_units_emulated"
                           : "moe_down_units";
    d->spec[SPEC_THREADS] = threads;
    d->spec[SPEC_MATRIX_M] = d->spec[SPEC_MATRIX_K] = MATRIX_SIDE;
    d->spec[SPEC_MATRIX_N] = MATRIX_FEW;
}

/* Whether the shader can choose as the router says, with a thread for each expert where it writes
 * the choice down. */
static bool choice_fits(const struct mlp_op *op, uint32_t threads)
{
    const struct moe_plan *p = op->moe;
    return !op->route ||
           (op->folded && dispatch_by_logits(p) && ((uint32_t)p->n_expert + 3) / 4 * 4 <= threads &&
            (uint32_t)p->n_expert <= MOST_EXPERTS);
}

void row_units_up(const struct recorder *r, const struct mlp_op *op, struct dispatch *d)
{
    const struct device_matrix *m = &op->m->gate_up;
    if (!fits(r, op, m) || m->rows % 8)
        return;
    const struct gpu_caps *c = &r->b->gpu.caps;
    const uint32_t most = (UP_THREADS < c->max_threads ? UP_THREADS : c->max_threads) / 32,
                   steps = m->layout.n_chunk / STEP_CHUNKS,
                   slices = divisor(steps, most < UP_SLICES ? most : UP_SLICES),
                   tiles = divisor(m->rows / 8, up_tiles(r)),
                   parts = divisor(m->rows / 8 / tiles, most / slices),
                   threads = 32 * slices * parts, rows = 16 * tiles * parts;
    const uint32_t bytes = steps * STEP_BYTES + rows * (slices + steps) * ROW_BYTES;
    if (!choice_fits(op, threads) || bytes + SHARED_RESERVE > c->max_shared)
        return;
    take(r, d, true, threads);
    d->spec[SPEC_UNITS_SLICES] = slices;
    d->spec[SPEC_UNITS_STEPS] = steps / slices;
    d->spec[SPEC_UNITS_TILES] = tiles;
    d->spec[SPEC_UNITS_DEPTH] = divisor(tiles * steps / slices, UP_DEPTH);
    d->spec[SPEC_UNITS_D_MODEL] = (uint32_t)r->b->plan->d_model;
    d->x = m->rows / (rows / 2) + op->route;
}

void row_units_down(const struct recorder *r, const struct mlp_op *op, struct dispatch *d)
{
    const struct device_matrix *m = &op->m->down;
    if (!fits(r, op, m) || m->rows % 16 || op->shared)
        return;
    const struct gpu_caps *c = &r->b->gpu.caps;
    const uint32_t steps = m->layout.n_chunk / STEP_CHUNKS, n_used = mlp_used(op);
    uint32_t slices = divisor(steps, DOWN_SLICES);
    while (slices > 1 && 32 * n_used * slices > c->max_threads)
        slices = divisor(steps, slices - 1);
    const uint32_t warps = n_used * slices;
    const uint32_t bytes = n_used * steps * (STEP_BYTES + 16 * ROW_BYTES) + warps * (160 + 16 * 4);
    if (32 * warps > c->max_threads || bytes + SHARED_RESERVE > c->max_shared)
        return;
    take(r, d, false, 32 * warps);
    d->spec[SPEC_UNITS_SLICES] = slices;
    d->spec[SPEC_UNITS_STEPS] = steps / slices;
    d->spec[SPEC_UNITS_DEPTH] = divisor(steps / slices, DOWN_DEPTH);
    d->x = m->rows / 16;
}
