/* Routers without a dispatch of their own. The logits are linear in what the router reads before
 * its norm's factor is known, and that is the layer's input plus the mixer's output: R g (x + W a)
 * = (R g) x + (R g W) a. With R g W made once, the first sum stands beside the mixer's projections
 * and the second beside its output, and the factor is left to who chooses the experts. Steps of few
 * rows use it, where a dependent dispatch costs more than the bytes. */
#pragma once
#include "engine/vulkan/ops/record.h"

/* Makes R g W of every layer that has room for it. After the weights are on the device. */
bool router_fold_make(struct backend *b, struct err *e);
/* What is left of such a router where the experts are products of many rows (record_gemm.h): their
 * choice and the cast that they read, as record_router makes them. */
void router_fold_choose(struct recorder *r, const struct device_layer *l,
                        const struct mlp_op *experts);
/* Whether the router of this layer may be folded in a step that r records. */
bool router_fold_fits(const struct recorder *r, const struct device_layer *l);
