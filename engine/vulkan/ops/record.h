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
    bool wanted_alone;    /* the last layer, of which only wanted rows are computed */
    struct err *e;
};

/* The step's rows for what needs no others than those that count. */
static inline VkDeviceAddress record_rows(const struct recorder *r)
{
    return r->wanted_alone ? r->b->step.at_last_rows : r->b->step.at_rows;
}

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
    /* few rows: logits (+)= extra x in the same dispatch, without the norm; extra is f32, of as
     * many columns as w */
    const struct device_matrix *extra;
    bool extra_add;
};
void record_linear(struct recorder *r, const struct linear_op *op);

struct mlp_op { /* x += sum of experts(norm(x)) */
    const struct device_mlp *m;
    const struct moe_plan *moe; /* routed; NULL: one expert for all rows */
    const struct device_layer *layer;
    int index;            /* of the layer */
    VkDeviceAddress h;    /* between up and down */
    VkDeviceAddress gate; /* not routed: logit of the first row's weight, the next ones sizes.expert
                             floats apart; 0: weight 1 */
    const struct mlp_op *shared; /* routed, in down and in record_gemm_mlp: the shared expert beside
                                    them; NULL: none */
    VkDeviceAddress next_norm;   /* many rows: of the layer whose products follow, see
                                    record_gemm_mlp; 0: none */
    bool clamp;
    bool tiled;  /* by record_gemm_mlp */
    bool units;  /* with tiled, routed: record_router wrote x in the order of record_gemm_units */
    bool lists;  /* many rows: record_route listed each expert's pairs */
    bool route;  /* up also chooses the experts (else record_route came before) */
    bool folded; /* with route: the logits lack the norm's factor, see router_fold.h */
};
/* Experts of a row. */
static inline uint32_t mlp_used(const struct mlp_op *op)
{
    return op->moe ? (uint32_t)op->moe->n_used : 1;
}
/* Whether up can take folded logits: it has a whole row of x at once. */
bool record_mlp_up_folds(const struct recorder *r, const struct device_layer *l);
void record_mlp_up(struct recorder *r, const struct mlp_op *op);
/* Whether record_mlp_down can take a shared expert beside the routed ones: packed as they are or in
 * Q8_0, no bias, a row's chunks no more than a subgroup's threads, its h no more than a vector for
 * each thread of a workgroup. */
bool record_mlp_down_beside(const struct recorder *r, const struct mlp_op *routed,
                            const struct mlp_op *shared);
void record_mlp_down(struct recorder *r, const struct mlp_op *op);

#define RECORD_LIST_ROWS 64u /* of a step at most, whose experts have lists in place of tiles */
/* Places of such a list. */
static inline uint32_t record_list_rows(uint32_t n_rows)
{
    return (n_rows + 15) / 16 * 16;
}

/* x += parts_down of each row's experts, and of the shared one, the last part of record_gemm_mlp.
 */
void record_moe_sum(struct recorder *r, const struct mlp_op *op, VkDeviceAddress shared_part);

void record_embed(struct recorder *r);
/* x += rows of d_model floats, one for each of the step. */
void record_add_rows(struct recorder *r, VkDeviceAddress rows);
/* lists: also each expert's pairs into workspace.sorted, for record_gemm_mlp. */
void record_route(struct recorder *r, const struct moe_plan *p, const struct device_layer *l,
                  int layer, bool lists);
/* The router of a layer that has router_x, for at most RECORD_LIST_ROWS rows, with record_route's
 * choice and the cast that the experts' products read. */
void record_router(struct recorder *r, const struct device_layer *l, const struct mlp_op *experts);
void record_rope_kv(struct recorder *r, const struct attention_plan *a,
                    const struct device_layer *l);
/* Splits of its context that a row at this position has in a step of so many rows, at most. */
uint32_t record_splits(const struct backend *b, int32_t n_rows, int32_t position);
uint32_t record_most_splits(const struct backend *b, int32_t n_rows);
struct attention_op {
    bool prep;         /* it also does what rope_kv does */
    bool halves;       /* the result goes to workspace.x_hi, rounded to 16 bits */
    uint32_t n_splits; /* of any row at most; with more than one a second dispatch merges them */
    int layer;
    uint32_t merge; /* record_resident() merges them, by this; 0: no */
    bool chained;   /* no barriers stand between this and the record_resident() of its layer and of
                       the one before: they wait for each other's counts */
};
/* What record_resident() merges a layer's splits by, as SPEC_RESIDENT_MERGE; 0: it does not. */
uint32_t record_merge_inside(const struct recorder *r, const struct attention_plan *a,
                             uint32_t n_splits);
/* Whether attention of all layers can be chained to record_resident(). Several rows have one split
 * then: a dispatch merges more, whom nothing would tell that attention waited in vain. */
bool record_chain_fits(const struct recorder *r, uint32_t n_splits);
/* Workgroups of attention for each split. */
uint32_t record_attention_groups(const struct recorder *r, const struct attention_plan *a,
                                 const struct attention_op *op);
void record_attention(struct recorder *r, const struct attention_plan *a,
                      const struct device_layer *l, const struct attention_op *op);
/* Whether every attention layer can be done by attn_coop, or by attn_plain where there are no
 * matrix units. */
bool record_tiled_attention_fits(const struct backend *b);
/* Attention of the step's tiles. */
void record_tiled_attention(struct recorder *r, const struct attention_plan *a,
                            const struct device_layer *l, uint32_t n_tiles);
/* Rows that tiles computed over packed keys and values: rotated back, and gated. */
void record_attention_rotate(struct recorder *r, const struct attention_plan *a);
/* Candidates of rows [first, first + n) of the wanted outputs, from work.logits. */
void record_topk(struct recorder *r, uint32_t first, uint32_t n);
