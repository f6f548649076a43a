/* What the Vulkan backend keeps: the device, weights, KV, work memory, and recorded steps. Private
 * to this room. One owner thread. */
#pragma once
#include "engine/backend/backend.h"
#include "engine/vulkan/device/profile.h"
#include "engine/vulkan/experts/device_slots.h"
#include "engine/vulkan/ops/expert_cpu_offload.h"
#include "engine/vulkan/shaders/interface.h"
#include "engine/vulkan/weights/device_model.h"

#define STEP_HEAD_ROWS 64      /* logits of so many rows at a time */
#define ATTENTION_FEW_SPLITS 4 /* of a row's context, where a step has many rows */
#define STEP_PADDING (-1)      /* position of a row that only pads the batch */
#define USED_WORDS SLOT_USED_WORDS
#define RESIDENT_MEETING_WORDS (RESIDENT_MEETINGS * RESIDENT_LINE_WORDS) /* of a layer */
#define RESIDENT_WORDS (RESIDENT_MEETING_WORDS + RESIDENT_ADVANCED_WORDS + RESIDENT_MIXER_WORDS)

struct workspace { /* device addresses; sizes for max_rows rows; rows are multiples of 32 floats,
                      padding zero */
    VkDeviceAddress x;            /* [rows, d] residual stream */
    VkDeviceAddress qkv;          /* [rows, qkv_stride] */
    VkDeviceAddress attn;         /* [rows, n_head * d_head]; DeltaNet: [rows, n_v_head * d_v] */
    VkDeviceAddress convolved;    /* [rows, channels] DeltaNet's q, k, v after the convolution */
    VkDeviceAddress gates;        /* [rows, n_v_head, 2] its decay and strength; or in a row alone
                                     squares of resident.comp's pieces of heads */
    VkDeviceAddress parts;        /* attention's splits */
    VkDeviceAddress router;       /* [rows, n_expert] logits, and one of the shared expert's gate */
    VkDeviceAddress ids, weights; /* [rows, n_used] */
    VkDeviceAddress h;            /* [rows * n_used, d_ff] */
    VkDeviceAddress h_shared;     /* [rows, d_ff of the shared expert] */
    VkDeviceAddress used;         /* [n_layer, USED_WORDS] experts that the step read; then a word:
                                     resident.comp gave up */
    VkDeviceAddress meetings;     /* [n_layer, RESIDENT_MEETING_WORDS] counters of resident.comp;
                                     then [n_layer, RESIDENT_ADVANCED_WORDS] and
                                     [n_layer, RESIDENT_MIXER_WORDS] */
    VkDeviceAddress logits;       /* [STEP_HEAD_ROWS, n_vocab] */
    VkDeviceAddress candidates, candidate_ids, stats; /* first half of top */
    /* only where products go to the matrix units */
    VkDeviceAddress x_hi, x_lo; /* [rows, widest] halves of activations, and what rounding lost */
    VkDeviceAddress parts_down; /* [rows * n_used, d], and [rows, d] of the shared expert */
    VkDeviceAddress sorted, tiles, n_tiles; /* (row, slot) pairs by expert */
    VkDeviceAddress counts; /* [n_expert] pairs of each, where sorted has a list for each; zero
                               between layers */
    /* [RECORD_LIST_ROWS] workgroups of router.comp that have a row's logits; zero between layers */
    VkDeviceAddress arrived;
    struct heap heap;
};

struct workspace_sizes { /* greatest over the layers, padded to 32 */
    uint32_t d, qkv, attn, channels, gates, n_kv_head, d_head, group, heads, expert, n_used, h,
        h_shared;
    /* group: query heads of a KV head; heads: the same, rounded up to whole workgroups of attention
     */
    uint32_t n_slices;    /* of the vocabulary */
    uint32_t max_splits;  /* of attention, for rows of a decode step */
    uint32_t decode_rows; /* rows of a step at most that attention splits over workgroups */
};

/* The step's variables as the shaders read them, written by the host before each submission. */
struct step_memory {
    struct gpu_buffer buffer;
    int32_t *n_top;      /* [4] */
    int32_t (*rows)[4];  /* [max_rows] token, position, table, switches: see Rows in
                            shaders/include/common.glsl */
    int32_t (*tiles)[4]; /* [tile_cap] first row, count: runs of rows of one sequence */
    /* The same for what the last layer does behind its keys and values, or its recurrent state:
     * rows that nobody wants are dead, tiles of such rows alone empty */
    int32_t (*last_rows)[4], (*last_tiles)[4];
    int32_t *outs; /* [max_rows] row of each wanted output */
    int32_t (
        *runs)[2]; /* [max_rows] recurrent state, rows before of the same sequence in this step */
    int32_t (*sequences)[4]; /* [max_sequences] first row, rows, recurrent state, position of the
                                first row */
    int32_t *tables;         /* [table_cap] block ids */
    VkDeviceAddress at_n_top, at_rows, at_outs, at_tables, at_tiles, at_runs, at_sequences,
        at_last_rows, at_last_tiles;
    int32_t table_cap, tile_cap, tile_rows; /* tile_rows: of a tile at most; 0: no tiles */
    struct gpu_buffer
        trace; /* with params.route: [n_layer, max_rows, n_used] experts in place of the router's
                  choice. Of measurements: not counted as the model's memory */
};

struct result_memory { /* written by the device */
    struct gpu_buffer buffer;
    int32_t *ids;   /* [max_rows, BACKEND_MAX_TOP] */
    float *logits;  /* [max_rows, BACKEND_MAX_TOP] */
    float *lse;     /* [max_rows] */
    uint32_t *used; /* [n_layer, USED_WORDS]; then a word: the step must be done again without
                       resident.comp */
    VkDeviceAddress at_ids, at_logits, at_lse;
    uint64_t used_offset;
    struct gpu_buffer full_logits; /* [rows, n_vocab] whole logits; grows when asked for */
};

struct step_shape {        /* what a recorded step depends on */
    int32_t n_rows, n_out; /* rounded up */
    bool one_row_each;     /* each row is its sequence's only one */
    int32_t n_tiles;       /* attention tiles, rounded up; 0: none */
    int32_t n_sequences;   /* rounded up; 0 where no op asks: delta_step, or no recurrent layers */
    bool has_untiled;      /* some rows are in no tile */
    int32_t n_splits;      /* of the context of a row in no tile, at most; rounded up */
    bool full_logits;      /* whole logits are copied out */
    bool again;            /* resident.comp gave it up: states that it advanced stay */
};

struct recorded_step {
    struct step_shape shape;
    VkCommandBuffer command;
    uint64_t used_at; /* for eviction */
};

#define MAX_RECORDED 48

/* Products of whole tiles of 128 rows by matmul_wide, and of few rows by matmul_few, moe_few and
 * attn_units: not at all, on the matrix units, or on plain arithmetic in their place (tests). */
enum wide_products { WIDE_NONE, WIDE_UNITS, WIDE_EMULATED };

struct tuning {       /* of the kernels for few rows; measured, see docs/speed/vulkan.md */
    uint32_t threads; /* of a workgroup */
    uint32_t linear_rows, head_rows, up_rows, down_rows; /* of W for a subgroup */
    uint32_t gemm_min_rows;    /* rows of a step from which record_gemm.c records its products */
    uint32_t gemm_expert_rows; /* the same for the products of routed experts: no fewer */
    uint32_t choice_rows;      /* of a step at most whose experts moe_up chooses */
    uint32_t router_rows;      /* of those, so many at most go one by one through the router */
    uint32_t gemm_head_rows;   /* wanted rows from which the head's is one of them */
    uint32_t deep_splits;      /* of attention, from which a workgroup has more heads */
    uint32_t unit_splits;      /* of attention, from which attn_units takes several f16 rows */
    uint32_t split_blocks;     /* KV blocks of a split of attention at least */
    int32_t tiled_rows; /* of a sequence in a step, from which its attention is done by tiles */
    uint32_t gemm_tile_m, gemm_tile_n,
        gemm_buffers; /* tile of a matrix product at most, and tiles in shared memory */
    enum wide_products wide, few;
    uint32_t few_rows;        /* of a step at most whose dense products are matmul_few's */
    uint32_t few_split_rows;  /* of W at least, for those with f32 precision */
    uint32_t few_threads;     /* of a workgroup of matmul_few at most */
    uint32_t wide_groups;     /* workgroups of matmul_wide at least, where rows are in order */
    uint32_t wide_rows;       /* three halves of the rows that an expert has on average, at least */
    uint32_t resident_groups; /* of resident.comp, which must all run at once; 0: not used */
};

struct backend {
    struct gpu gpu;
    const struct model_plan *plan;
    struct backend_params params;
    struct device_model model;
    struct device_slots slots;
    struct expert_pool pool; /* n_planned 0: no experts are on disk */
    struct expert_cpu_offload cpu_offload;
    struct workspace workspace;
    struct workspace_sizes sizes;
    struct heap kv_heap, state_heap;
    enum kv_type kv_type;    /* as stored */
    uint64_t kv_block_bytes; /* of one layer */
    struct step_memory step;
    struct result_memory result;
    struct gpu_buffer content_staging; /* device_content.c; from its first use on */
    struct recorded_step recorded[MAX_RECORDED];
    int n_recorded;
    uint64_t n_steps;
    uint64_t dense_bytes; /* read by every step */
    struct backend_counters counters;
    double bandwidth;        /* measured, 0: not yet */
    struct profile *profile; /* NULL in service */
    struct tuning tuning;
    bool delta_steps; /* DeltaNet has a kernel of its own for decode: its workgroups fit the device
                       */
};

/* --- backend.c: open and close without a word in the log, for probes */
struct backend *vulkan_backend_create(const struct model_plan *plan, const struct backend_params *p,
                                      struct err *e);
void backend_close(struct backend **b);
/* Closes all but the device, which goes to backend_params.kept. */
void backend_leave(struct backend **b, struct backend_kept **kept);

/* --- work.c: work memory, the step's variables, results, KV, states */
void workspace_sizes_of(const struct model_plan *plan, const struct backend_params *p,
                        struct workspace_sizes *s);
bool workspace_plan(
    struct backend *b,
    struct err *e); /* notes work, KV and states in their heaps; no device is touched */
uint64_t workspace_host_bytes(
    const struct backend *b); /* of the step's and the results' buffers, before workspace_open */
bool workspace_open(struct backend *b, struct err *e);
uint64_t workspace_trace_bytes(const struct backend *b); /* of one layer in step.trace */
bool workspace_reserve_full_logits(struct backend *b, int32_t rows, struct err *e);
void workspace_close(struct backend *b);

/* --- forward.c: records a step */
VkCommandBuffer forward_record(struct backend *b, const struct step_shape *s,
                               struct err *e); /* NULL on failure */
/* Runs a step layer by layer: with the experts of each brought from the pool or the disk, or
 * (leaves) with those without a slot computed by the processor. */
bool forward_run_by_layer(struct backend *b, const struct step_shape *s, bool offload,
                          struct err *e);
/* --- forward_dump.c: runs a step op by op, handing every intermediate to params.dump */
bool forward_dump(struct backend *b, const struct step_shape *s, struct err *e);
