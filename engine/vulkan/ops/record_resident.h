/* Steps of a row alone: all that lies between two mixers, wo, the experts and the next layer's
 * projections, and that layer's DeltaNet as well, in one dispatch whose workgroups wait for each
 * other (shaders/resident.comp). A boundary between dispatches costs more than such a wait, and the
 * next weights are asked for before it. The workgroups must all run at once: tuning.resident_groups
 * says how many do. Where they do not, a wait ends after a while and says so behind result.used;
 * the step is done again without. */
#pragma once
#include "engine/vulkan/ops/record.h"

/* Whether the step that r records goes this way: all layers are of one kind but for their mixers,
 * and of K-blocks for the formats of down and v, for which there is a shader. The caller sees to it
 * that routers are folded and nobody looks at intermediates. */
bool record_resident_fits(const struct recorder *r);
/* Zeroes the counters and says what recurrent layers are computed with, before the first layer. */
void record_resident_begin(struct recorder *r);
/* A layer from wo on, behind its attention, and the projections of the one that follows, if any,
 * with its mixer if that is recurrent. Of a recurrent layer `attention` names the layer alone. */
void record_resident(struct recorder *r, const struct attention_op *attention);
/* Words of a layer, one for each piece of its state that a step has advanced before it was given
 * up. */
VkDeviceAddress record_resident_advanced(const struct backend *b, int index);

/* The same for steps of several rows, MATRIX_FEW at most, on the matrix units
 * (shaders/resident_few.comp; record_resident_few.c). The mixer's output stands in workspace.x_hi,
 * as halves; of a context in several splits these are merged. */
bool record_resident_few_fits(const struct recorder *r);
void record_resident_few(struct recorder *r, const struct attention_op *attention);

/* What both have: whether one pipeline's constants hold for both matrices. */
bool record_resident_same_shape(const struct device_matrix *a, const struct device_matrix *b);
/* n addresses in units of RESIDENT_UNIT from the lowest of them, `base`; an absent one is 0. False:
 * they are too far apart. */
bool record_resident_units(const VkDeviceAddress *at, uint32_t *units, int n, uint64_t *base);
/* Addresses of what both read of layer `index` and of the one that follows: wo, what makes logits
 * beside it, the norm, up, down; the next norm and projections, and what makes logits beside them.
 */
#define RECORD_RESIDENT_WEIGHTS 14
void record_resident_weights(const struct backend *b, int index,
                             VkDeviceAddress at[RECORD_RESIDENT_WEIGHTS]);
