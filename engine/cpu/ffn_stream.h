/* A layer's experts out of a store: those that are there are computed while the others are read.
 * Results are the same, bit for bit, as with all weights in memory: each row's sum is made in the
 * order of the experts' ids. Called by every thread of a step. */
#pragma once
#include "engine/cpu/ffn_groups.h"

/* Both phases of all groups; ends with a barrier. On failure stream.failed is set for all threads.
 */
void ffn_stream(struct worker *w, struct groups *g, int32_t index);
/* Reading ahead: fills *product with the next layer's router on this layer's input, packed into
 * *panel. False: not in this step, or there is no such layer. */
bool ffn_stream_predict(struct worker *w, int32_t index, struct panel *panel,
                        struct product *product);
