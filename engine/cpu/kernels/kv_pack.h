/* Quantising keys and values in plain C: the specification of q8 and k8v4, and what the vector
 * kernels share with it. See engine/model/kv_type.h. */
#pragma once
#include "engine/cpu/kernels/kernels.h"

/* v <- H v / sqrt(n) for each n = kv_rotation(d_head) dimensions of it, H being Hadamard's matrix:
 * its own inverse. */
void kv_pack_rotate(float *v, int32_t d_head);
/* Nearest, ties to even; what is too large for a half becomes the largest one; NaN stays NaN. */
uint16_t kv_pack_half(float v);
/* Stores a rotated key and value. */
void kv_pack_store(const struct kv_view *kv, int32_t block, int32_t slot, int32_t head,
                   const float *k, const float *v);
/* As stored, dimension i of a token's key or value. */
float kv_pack_key(const struct kv_view *kv, int32_t block, int32_t slot, int32_t head, int32_t i);
float kv_pack_value(const struct kv_view *kv, int32_t block, int32_t slot, int32_t head, int32_t i);
