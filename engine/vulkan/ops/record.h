/* Recording of ops into a command buffer: one function per kind of op, each binds a pipeline,
 * pushes its arguments and dispatches. Barriers are the caller's: ops recorded between two barriers
 * may run at the same time. */
#pragma once
#include "engine/vulkan/ops/backend_state.h"

struct recorder {
    struct backend *b;
    VkCommandBuffer c;
    uint32_t n_rows;
    bool ok;              /* false after the first failure; later calls do nothing */
    const char *last;     /* name of the last op, for profiles */
    bool offloads_misses; /* this step's experts without a slot are left to the processor */
    struct err *e;
};

void record_barrier(struct recorder *r);
/* Buffer and offset of an address in work memory, for copies. False after a failure, which not to
 * find it is. */
bool record_locate(struct recorder *r, VkDeviceAddress a, VkBuffer *buffer, uint64_t *offset);

struct linear_op {     /* y (+)= W norm(x) + bias */
    const char *label; /* for profiles */
    const struct device_matrix *w;
    VkDeviceAddress x, norm, y, bias, gather;
    uint32_t x_stride, y_stride; /* floats */
    uint32_t n_x;
    float eps;
    bool add;
};
void record_linear(struct recorder *r, const struct linear_op *op);

struct mlp_op { /* x += sum of experts(norm(x)) */
    const struct device_mlp *m;
    const struct moe_plan *moe; /* routed; NULL: one expert for all rows */
    const struct device_layer *layer;
    int index;            /* of the layer */
    VkDeviceAddress h;    /* between up and down */
    VkDeviceAddress gate; /* not routed: logit of the row's weight, or 0: weight 1 */
    bool clamp;
    bool route; /* up also chooses the experts (else record_route came before) */
};
void record_mlp_up(struct recorder *r, const struct mlp_op *op);
void record_mlp_down(struct recorder *r, const struct mlp_op *op);

void record_embed(struct recorder *r);
/* x += rows of d_model floats, one for each of the step. */
void record_add_rows(struct recorder *r, VkDeviceAddress rows);
void record_route(struct recorder *r, const struct moe_plan *p, const struct device_layer *l,
                  int layer);
void record_rope_kv(struct recorder *r, const struct attention_plan *a,
                    const struct device_layer *l);
/* Splits of its context that a row at this position has in a step of so many rows, at most. */
uint32_t record_splits(const struct backend *b, int32_t n_rows, int32_t position);
uint32_t record_most_splits(const struct backend *b, int32_t n_rows);
/* prep: the op also does what rope_kv does. n_splits: of any row at most; with more than one a
 * second dispatch merges them. */
void record_attention(struct recorder *r, const struct attention_plan *a,
                      const struct device_layer *l, bool prep, uint32_t n_splits);
/* Rows that tiles computed over packed keys and values: rotated back, and gated. */
void record_attention_rotate(struct recorder *r, const struct attention_plan *a);
/* Candidates of rows [first, first + n) of the wanted outputs, from work.logits. */
void record_topk(struct recorder *r, uint32_t first, uint32_t n);
