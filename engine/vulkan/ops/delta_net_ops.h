/* Gated DeltaNet on the device: its states, and its ops between the projections and the output's.
 * Formulas in engine/cpu/delta_net.c and shaders/delta*.comp. */
#pragma once
#include "engine/vulkan/ops/record.h"

/* Returns the channels of the convolution: rows of w_qkv. */
int32_t delta_net_channels(const struct delta_net_plan *p);
/* Returns the size of one sequence's state in one layer, laid out as in shaders/include/delta.glsl.
 */
uint64_t delta_net_state_bytes(const struct delta_net_plan *p);
/* Reads workspace.qkv (q, k, v, z, a, b of each row) and writes workspace.attn, or x_hi in halves,
 * without a barrier after it. n_sequences: of the step, rounded up; 0: each row is its sequence's
 * only one. advanced: pieces of the state that are a step further, record_resident_advanced(); 0:
 * none. */
void delta_net_record(struct recorder *r, const struct delta_net_plan *p,
                      const struct device_layer *l, uint32_t n_sequences, bool halves,
                      VkDeviceAddress advanced);
/* The constants of DeltaNet's shaders but SPEC_THREADS. */
void delta_net_spec(const struct recorder *r, uint32_t *spec, const struct delta_net_plan *p);
/* Converts a state read back from the device to the published order: heads as in the Hugging Face
 * file, conv [channels, n_conv - 1] with the oldest input first, recurrent [n_v_head, d_k, d_v].
 * n_past: tokens that the state has seen. */
void delta_net_show_state(const struct delta_net_plan *p, const float *state, int32_t n_past,
                          float *conv, float *recurrent);
