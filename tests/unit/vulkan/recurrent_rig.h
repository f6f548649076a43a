/* A small random model of Qwen3.6's kind: three of four layers are gated DeltaNet, attention has an
 * output gate, a shared expert with a gate stands beside the routed ones. Q8_0, experts MXFP4. */
#pragma once
#include "engine/model/plan.h"

#define RECURRENT_VOCAB 512
#define RECURRENT_LAYERS 5

/* Lives until recurrent_rig_close(). */
const struct model_plan *recurrent_rig_open(void);
/* The same with attention alone, in heads that attn_units.comp takes. */
const struct model_plan *attention_rig_open(void);
/* That in Q4_K, v and down of some layers in other K-blocks, as Q4_K_M has them; no shared expert.
 */
const struct model_plan *blocks_rig_open(void);
/* Attention alone in Q8_0, experts in MXFP4, as steps of few rows take it: more columns, no shared
 * expert. */
const struct model_plan *few_rig_open(void);
void recurrent_rig_close(void);
