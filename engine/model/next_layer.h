/* The next-token layer that a model may carry behind its last one (multi-token prediction): a plan
 * of its own with one layer, which begins from hidden states (plan.h: joint_plan) and has the
 * model's embedding and head. Its names are those of published files:
 *
 *   Qwen3-Next, Qwen3.5     mtp.fc, mtp.pre_fc_norm_embedding, mtp.layers.0..., mtp.norm
 *   GLM-4.5 (DeepSeek V3)   model.layers.N.eh_proj, .enorm, .hnorm, .shared_head.norm
 *   GGUF, of both           blk.N.nextn.eh_proj, .enorm, .hnorm, .shared_head_norm
 *
 * Used by model.c only. */
#pragma once
#include "engine/model/family.h"

/* After family_build. False with *e: there is none that can be run, and why; the model itself is
 * none the worse for it. ERR_NOTFOUND: its files have none. Of several layers the first is taken:
 * further tokens come from feeding its own hidden state back. */
bool next_layer_build(const struct family *f, const struct config *c, const struct binder *b,
                      const struct model_plan *p, struct model_plan *next, struct err *e);
