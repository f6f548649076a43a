/* What the files that record ops share: one dispatch, and the parts that all fill in alike. */
#pragma once
#include <string.h>

#include "engine/vulkan/device/khr_matrices.h"
#include "engine/vulkan/ops/record.h"
#include "engine/vulkan/shaders/push.h"
#include "engine/vulkan/weights/device_block.h"

_Static_assert(SPEC_END <= GPU_MAX_SPEC, "a pipeline has no place for all constants");
_Static_assert(sizeof(struct push_planes) == DEVICE_PLANES * sizeof(VkDeviceAddress),
               "shaders see other planes than the weights have");

_Static_assert(SPEC_MATRIX_M == KHR_MATRIX_M && SPEC_MATRIX_N == KHR_MATRIX_N &&
                   SPEC_MATRIX_K == KHR_MATRIX_K && MATRIX_SIDE == KHR_MATRIX_SIDE &&
                   MATRIX_FEW == KHR_MATRIX_FEW,
               "matrices are told by other constants than the shaders have");

struct dispatch {
    const char *shader; /* with the format's suffix, where it has one */
    const char *format; /* NULL: none */
    uint32_t spec[GPU_MAX_SPEC];
    const void *push; /* the shader's block of shaders/push.h */
    uint32_t push_bytes;
    uint32_t x, y, z;
};

/* Planes of routed experts: where experts are split, the layer's table takes the place of the first
 * (SPEC_SPLIT_EXPERTS, SPEC_OFFLOADS_MISSES). */
static inline struct push_planes dispatch_expert_planes(const struct recorder *r,
                                                        const struct device_layer *l,
                                                        const struct device_matrix *m)
{
    const VkDeviceAddress table =
        r->offloads_misses ? l->split_experts.table_slots : l->split_experts.table;
    return (struct push_planes){
        .data = table ? table : m->plane[0], .scales = m->plane[1], .biases = m->plane[2]};
}
void dispatch_op(struct recorder *r, const struct dispatch *d);
struct push_planes dispatch_planes(const struct device_matrix *m);
void dispatch_spec_format(uint32_t *spec, const struct device_matrix *m);
/* The constants of the choice of experts; p NULL: of one expert. */
void dispatch_spec_route(uint32_t *spec, const struct moe_plan *p);
/* Experts of steps of so few rows that each row goes by itself, on the matrix units: turns a
 * dispatch of moe_up, or of moe_down, into one of moe_up_units, or of moe_down_units, with the same
 * arguments, where the device and the shape allow; else leaves it. */
void row_units_up(const struct recorder *r, const struct mlp_op *op, struct dispatch *d);
void row_units_down(const struct recorder *r, const struct mlp_op *op, struct dispatch *d);
/* Dispatches d, one of the shaders that choose experts and cast x for them, whose push constants
 * and constants of the choice this fills in. */
void dispatch_router(struct recorder *r, struct dispatch *d, const struct device_layer *l,
                     const struct mlp_op *experts);
/* Whether a folded router chooses by its logits as they stand, by_logits() of
 * shaders/include/route_logits.glsl but for threads. */
static inline bool dispatch_by_logits(const struct moe_plan *p)
{
    return p->score != ROUTER_SIGMOID && !p->select_bias.at && p->n_group <= 1;
}
/* Whether a matrix is MXFP4 in the order that unpacks by masks (shaders/include/quant_mxfp4.glsl).
 */
static inline bool dispatch_by_masks(const struct device_matrix *m)
{
    return !strcmp(m->layout.kernel, "mxfp4") && m->layout.block == MXFP4_BY_MASKS;
}
/* Whether one variant of a shader with the same constants reads both. */
static inline bool dispatch_same_format(const struct device_layout *a,
                                        const struct device_layout *b)
{
    return !strcmp(a->kernel, b->kernel) && a->bits == b->bits &&
           a->group_chunks == b->group_chunks && a->scale_type == b->scale_type &&
           a->block == b->block;
}
/* Bits of the experts that a layer uses. */
static inline uint64_t dispatch_used(const struct recorder *r, int layer)
{
    return r->b->workspace.used + (uint64_t)layer * USED_WORDS * 4;
}
static inline uint32_t divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}
