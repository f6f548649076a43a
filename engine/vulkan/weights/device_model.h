/* A plan's weights and vectors on the device: addresses and layouts, ready for push constants.
 * Built at open, immutable after; owned by the backend. */
#pragma once
#include "engine/model/plan.h"
#include "engine/vulkan/weights/heap.h"
#include "engine/vulkan/weights/device_layout.h"

struct device_matrix {
    VkDeviceAddress plane[DEVICE_PLANES]; /* 0: absent */
    struct device_layout layout;
    uint32_t rows;     /* of one matrix */
    uint32_t n_matrix; /* 0: the matrix is absent */
};

struct device_mlp {               /* dense feed-forward, shared expert, or all routed experts */
    struct device_matrix gate_up; /* the gates of all experts, then all ups; rows: of one gate */
    struct device_matrix down;
    VkDeviceAddress b_gate_up, b_down;
    uint32_t d_ff;
};

struct device_delta_net {
    struct device_matrix
        in[4]; /* q and k and v, z, a, b; those packed alike and next to each other in one stack */
    int n_in;
    VkDeviceAddress conv, a_log, dt_bias, norm;
};

/* Split experts, each placed by itself: in host memory, which shaders read over the bus, and some
 * in slots of the device as well. In host memory are all of them, or, where they stay on disk,
 * those of a pool (expert_pool.h). A record is the rows of an expert's gate, then those of its up;
 * its down matrix follows in planes of its own. */
struct device_experts {
    const struct weight *gate, *up, *down; /* for the upload */
    VkDeviceAddress
        host[2][DEVICE_PLANES]; /* of expert 0: [0] records, [1] down; 0: the pool has them */
    VkDeviceAddress slot[2][DEVICE_PLANES]; /* of slot 0 */
    uint64_t each[2][DEVICE_PLANES];        /* bytes of one expert; 0: no such plane */
    VkDeviceAddress
        table; /* where each expert is now (shaders/include/quant.glsl); 0: all lie in device_mlp */
    VkDeviceAddress
        table_slots; /* the same for steps whose other experts the processor computes: slots only */
};

struct device_layer {
    VkDeviceAddress mixer_norm, ffn_norm;
    struct device_matrix qkv[3]; /* stacks of neighbours that are packed alike */
    int n_qkv;
    VkDeviceAddress b_qkv[3];
    VkDeviceAddress q_norm, k_norm, sinks, inv_freq;
    struct device_matrix wo;
    VkDeviceAddress bo;
    struct device_delta_net
        delta_net;         /* recurrent layers, instead of the above but the norms and wo */
    struct device_mlp mlp; /* dense or routed */
    struct device_experts split_experts;
    struct device_matrix router, shared_gate;
    VkDeviceAddress router_bias, select_bias;
    /* f32: the router, and as its last row the shared expert's gate, times ffn_norm, and that times
     * wo, made on the device (ops/router_fold.h); absent where routers are not folded */
    struct device_matrix router_x, router_mixed;
    struct device_mlp shared;
    VkDeviceAddress kv; /* attention layers: blocks of this layer */
    VkDeviceAddress
        state; /* recurrent layers: states of this layer, see shaders/include/delta.glsl */
};

struct device_model {
    struct device_layer *layers; /* [n_layer] */
    struct device_matrix embed, head;
    VkDeviceAddress final_norm;
    bool folds_routers; /* set before device_model_plan: layers have router_x and router_mixed */
    struct heap heap;
    /* split experts */
    int32_t n_slots;      /* of each layer with experts; 0: no experts are split */
    bool pooled;          /* host memory has a pool of them, not all: `host` is empty */
    bool offloads_misses; /* the processor may compute those without a slot (expert_cpu_offload.h):
                             there are two tables */
    struct heap host, slots;
};
/* What the logits are products with: the head, or where it is tied the embedding. */
static inline const struct device_matrix *device_model_head(const struct device_model *m)
{
    return m->head.n_matrix ? &m->head : &m->embed;
}

/* Notes every part in m->heap; heap_commit then uploads. The plan must outlive the upload.
 * slot_bytes: of device memory that routed experts may take; 0, or enough for all of them: they lie
 * with the other weights, unless pooled. ERR_LIMIT: not one slot a layer. */
bool device_model_plan(struct device_model *m, const struct model_plan *plan, uint64_t slot_bytes,
                       bool pooled, struct err *e);
/* Bytes of one split expert: its planes one after the other, records first. */
uint64_t device_experts_record(const struct device_experts *x);
/* Notes a stack of n (<= HEAP_SOURCES) matrices packed alike, one below the other, as one matrix;
 * fills its layout now, its addresses with heap_commit. w must outlive the upload. */
bool device_matrix_plan(struct heap *h, const struct weight *const *w, int n,
                        struct device_matrix *m, struct err *e);
/* Returns the number of routed experts of the layer that has the most. */
int32_t device_model_most_experts(const struct model_plan *plan);
void device_model_fini(struct device_model *m, struct gpu *g); /* accepts a zeroed struct */
