/* The contract between the shaders and the host that fills them in: the planes of a packed matrix
 * and the numbers of the specialisation constants; push.h has the push constants. Both C and GLSL
 * (common.glsl) include it. Groups that no shader shares may use the same numbers. */
#ifdef __STDC__
#pragma once
#include <stdint.h>
#define PLANES struct push_planes
#else
#define PLANES struct Planes
#endif

/* Addresses of the planes of a packed matrix, see quant.glsl; 0: the format has no such plane. */
PLANES
{
    uint64_t data, scales, biases;
};
#undef PLANES

/* every shader */
#define SPEC_THREADS 0 /* of a workgroup, a multiple of the subgroup's size */

/* products over packed rows: linear, moe_up, moe_down (tile.glsl) */
#define SPEC_ROWS 1   /* rows of W of a subgroup */
#define SPEC_COLS 2   /* rows of x that a workgroup keeps */
#define SPEC_STEPS 3  /* chunks of a tile for each thread of a subgroup */
#define SPEC_NORM 4   /* x is RMS-normalised */
#define SPEC_LANES 15 /* threads of a subgroup */

/* shaders of products: each constant names those that have it */
#define SPEC_ADD 5    /* linear, matmul: the product is added to y */
#define SPEC_BIAS 6   /* linear, matmul, moe_up, moe_down, moe_sum */
#define SPEC_EXTRA 8  /* linear: a second product beside it: 0 none, 1 set, 2 added */
#define SPEC_GATHER 7 /* linear: rows of x are taken through a list */
#define SPEC_K 5      /* moe_down, moe_sum: experts of a row */
#define SPEC_WEIGHTS                                                                               \
    7 /* moe_down, moe_sum: 0 routed, 1 all ones, moe_down: 2 the sigmoid of one logit per row */

#define SPEC_BESIDE                                                                                \
    8 /* moe_down: chunks of a row of a shared expert beside the routed ones; 0: none */
#define SPEC_BESIDE_Q8 9 /* it is Q8_0, not packed as they are */

/* moe_sum */
#define SPEC_SUM_CAST 8
#define SPEC_SUM_SHARED 9 /* 0: no shared expert, 1: of weight 1, 2: the sigmoid of a logit */
#define SPEC_SUM_AHEAD 10 /* all parts at once */

/* moe_up */
#define SPEC_UP_CLAMP 5 /* gpt-oss's activation */
#define SPEC_ROUTED 7
#define SPEC_ROUTE 8        /* the shader makes the choice of experts itself */
#define SPEC_FOLDED 9       /* with ROUTE: the logits lack the norm's factor (ops/router_fold.h) */
#define SPEC_SHARED_GATE 10 /* router too: logits have one more, of the shared expert's weight */
#define SPEC_D_MODEL 26     /* moe_sum too */

/* moe_up_units, moe_down_units (row_units.glsl) */
#define SPEC_UNITS_SLICES 1
#define SPEC_UNITS_STEPS 2
#define SPEC_UNITS_TILES 3 /* moe_up_units */
#define SPEC_UNITS_DEPTH 4
#define SPEC_UNITS_D_MODEL 14

/* resident, which also has those of the choice of experts and of DeltaNet */
#define SPEC_D_FF 9
#define SPEC_MIXED_COLS 10          /* columns of the mixer's output */
#define SPEC_RESIDENT_CODES 11      /* as SPEC_CODES, of the experts; K-blocks: up's SPEC_BLOCK */
#define SPEC_RESIDENT_LOGITS 12     /* rows of the router for a workgroup beside each product */
#define SPEC_RESIDENT_SHARED 13     /* there is a shared expert, with a gate */
#define SPEC_RESIDENT_DELTA 14      /* there are recurrent layers */
#define RESIDENT_UNIT 256           /* bytes; heaps place their parts at multiples of it */
#define RESIDENT_LINE_WORDS 32      /* counters lie in lines of their own */
#define RESIDENT_MEETINGS 7         /* of a layer: the first four are resident.comp's own */
#define RESIDENT_MERGED 4           /* of its workgroups that merge attention's splits */
#define RESIDENT_ATTENDED 5         /* of attention's workgroups */
#define RESIDENT_PROJECTED 6        /* of the layer before: attention waits for its projections */
#define RESIDENT_USED_WORDS 16      /* of a layer */
#define RESIDENT_ADVANCED_WORDS 256 /* of a layer: pieces of its state that are a step further */
#define RESIDENT_MIXER_WORDS 12     /* of a layer: addresses of its DeltaNet */
#define RESIDENT_LACKS_NORM 1       /* the mixer's output, which is this layer's */
#define RESIDENT_NEXT_DELTA 2       /* the layer that follows is recurrent */
/* push constants that K-blocks have in place of a shared expert's */
#define RESIDENT_UP_HIGH shared_up_data
#define RESIDENT_DOWN_HIGH shared_up_scales
#define RESIDENT_V_AT shared_up_biases /* rows before those of v where it has its own format */
#define RESIDENT_V_DATA shared_down_data
#define RESIDENT_V_SCALES shared_down_scales
#define RESIDENT_V_HIGH shared_down_biases

/* resident_few, which also has those of the choice of experts */
#define SPEC_FEW_D_FF 1
#define SPEC_FEW_MIXED 2 /* columns of the mixer's output */
#define SPEC_FEW_QKV_ROWS 3
#define SPEC_FEW_CODES 4 /* as SPEC_CODES, of the experts */
#define SPEC_FEW_QKV_STRIDE 5
#define SPEC_FEW_LOGIT_STRIDE 6
#define SPEC_FEW_DEPTH 7  /* steps of up on their way */
#define SPEC_FEW_SLICES 8 /* of a row of down */

/* matmul, matmul_plain, matmul_wide */
#define SPEC_TILE_M 1
#define SPEC_TILE_N 2
#define SPEC_MODE 3
#define SPEC_TILES 4
#define SPEC_MATMUL_CLAMP 7
#define SPEC_MATMUL_SPLIT 8
#define SPEC_PER_ROW 9 /* pairs that share a row of X */
#define SPEC_KSPLIT 10
#define SPEC_BUFFERS 11 /* tiles in shared memory */
#define SPEC_ODD 12     /* rows of W end in half a step */
#define SPEC_LIST_ROWS                                                                             \
    13 /* matmul, moe_few, routers: each expert has a list of so many pairs at most; 0: none */

#define SPEC_CHUNKS 10  /* matmul_few: chunks of a thread at a time; moe_few: of a row */
#define SPEC_SLICES 11  /* matmul_few: of the columns */
#define SPEC_GROUPS 1   /* head_few: of 8 rows of X */
#define SPEC_DEPTH 12   /* head_few, moe_few: steps of weights on their way */
#define SPEC_AT_ONCE 5  /* moe_few: steps asked for at once, of formats by words */
#define SPEC_UNITS_X 11 /* router, moe_few: X in the units' order (few_order.glsl) */
#define SPEC_UNITS_Y 14 /* moe_few: results too */
#define FEW_PAIRS 128   /* moe_few: that it finds without lists, at most */

/* matmul, matmul_wide, attn_coop: a matrix of the units, M x K times K x N; always MATRIX_SIDE. By
 * these three khr_matrices.c tells what a matrix is used for. */
#define SPEC_MATRIX_M 24
#define SPEC_MATRIX_N 25
#define SPEC_MATRIX_K 26
#define LIST_SHORT_ROWS 32
#define MATRIX_SIDE 16
#define MATRIX_FEW 8    /* columns of a result of the units for few rows, as SPEC_MATRIX_N */
#define WIDE_TILE_M 128 /* rows of W of a tile of matmul_wide */

/* cast_f16 */
#define SPEC_CAST_NORM 1
#define SPEC_CAST_SPLIT 2

/* moe_sort */
#define SPEC_TILE_ROWS 1
#define SPEC_SMALL_ROWS 2 /* tiles of at most so many rows have a list of their own; 0: none */

/* the weights' format (quant.glsl) */
#define SPEC_BITS 16
#define SPEC_GROUP_CHUNKS 17
#define SPEC_SCALE_TYPE 18
#define SPEC_BLOCK 19           /* enum device_block */
#define SPEC_CODES 19           /* mxfp4: enum mxfp4_codes */
#define SPEC_SPLIT_EXPERTS 29   /* routed experts are found through a table */
#define SPEC_OFFLOADS_MISSES 30 /* experts without a slot are left to the processor */

/* the choice of experts (route.glsl), moe_sort */
#define SPEC_N_EXPERT 20
#define SPEC_N_USED 21
#define SPEC_SCORE 22 /* enum router_score */
#define SPEC_NORMALIZE 23
#define SPEC_N_GROUP 24
#define SPEC_N_GROUP_USED 25
#define SPEC_SELECT_BIAS 27
#define SPEC_TRACE 28

/* attn, attn_merge, attn_coop, attn_plain, attn_rotate */
#define SPEC_GROUP 1 /* query heads of a KV head */
#define SPEC_PREP 2
#define SPEC_GATE 3
#define SPEC_SINKS 4
#define SPEC_ATTN_THREADS 5
#define SPEC_MIN_BLOCKS 6
#define SPEC_MAX_SPLITS 7
#define SPEC_CLUSTER 13 /* threads that share a token */
#define SPEC_HEADS 14   /* query heads of a workgroup */
#define SPEC_SUBGROUPS 16
#define SPEC_ROUND 17
#define SPEC_CHAINED 19    /* attn_units: it waits for resident or resident_few, and counts */
#define SPEC_HALVES_OUT 18 /* attn, attn_merge: the result is rounded to halves */

/* heads and rotary embedding (rope.glsl, kv.glsl, kv_packed.glsl) */
#define SPEC_D_HEAD 8
#define SPEC_N_ROPE 9 /* dimensions that rotate */
#define SPEC_INTERLEAVED 10
#define SPEC_HEAD_NORM 11
#define SPEC_KV_F32 12
#define SPEC_KV_TYPE 15 /* enum kv_type, as stored */

/* DeltaNet (delta.glsl) */
#define SPEC_DK 1
#define SPEC_DV 2
#define SPEC_CONV 3 /* width of the convolution */
#define SPEC_TILED 4
#define SPEC_N_K 5
#define SPEC_N_V 6
#define DELTA_SHARE 8       /* threads that share a column of the state, at most */
#define DELTA_COLUMNS 4     /* of a thread of delta_step */
#define DELTA_THREADS 128   /* of delta_conv, delta_norm: four channels each */
#define SPEC_DELTA_HALVES 7 /* delta_norm, delta_step: the result is rounded to halves */
#define SPEC_DELTA_SHARE 8  /* threads that share a column here: 8 or 4 */
#define SPEC_DELTA_AGAIN 9  /* delta_step: what resident.comp has advanced stays as it is */

/* topk */
#define SPEC_MERGE 1
#define SPEC_TOPK_THREADS 2
#define SPEC_SLICE 3

/* resident: where activations lie, in units of RESIDENT_UNIT */
#define SPEC_AT_MIXED 31
#define SPEC_AT_X 32
#define SPEC_AT_LOGITS 33
#define SPEC_AT_H 34
#define SPEC_AT_QKV 35
#define SPEC_AT_USED 36
#define SPEC_AT_MEETINGS 37
#define SPEC_AT_SQUARES 38
#define SPEC_AT_PARTS 39
#define SPEC_ATTENDED                                                                              \
    40 /* workgroups of attention that it waits for, of each split (resident_few: row); 0: none */
#define SPEC_RESIDENT_MERGE 41 /* attention's splits, see resident_merge.glsl; 0: merged before */

/* resident, of K-blocks: as SPEC_BLOCK; v's is 0 where it is as q's */
#define SPEC_RESIDENT_DOWN 42
#define SPEC_RESIDENT_V 43

#define SPEC_END 44 /* the first number that no constant has */
