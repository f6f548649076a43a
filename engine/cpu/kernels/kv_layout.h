/* Where keys and values lie within a layer's storage (see struct kv_view).
 *
 * A block has n_kv_head parts for f16 and f32: all keys [n_kv_head, d_head, 32 tokens], then all
 * values [n_kv_head, 32 tokens, d_head]. Keys lie with tokens innermost, so that scores need no
 * sums across lanes.
 *
 * q8 and k8v4 (engine/model/kv_type.h says what the numbers mean) keep a head's parts together:
 *   keys          int8 [d_head / 2, 32 tokens, 2]: pairs, as products of 16 bits are summed
 *   key scales    f16 [32 tokens]
 *   values        q8: int8 [32 tokens, d_head]; k8v4: [32 tokens, d_head / 2], the even dimension
 * in a byte's low bits value scales  q8: f16 [32 tokens]; k8v4: f16 [groups, 32 tokens] The
 * shaders' twin (vulkan/shaders/include/kv.glsl) has the same bytes in another order. */
#pragma once
#include "engine/backend/backend.h"
#include "engine/cpu/kernels/kernels.h"

#define KV_TOKENS BACKEND_BLOCK_TOKENS

/* f16 and f32: offsets from the start of the layer, in values. */
static inline size_t kv_key_at(const struct kv_view *kv, int32_t block, int32_t head)
{
    const size_t part = (size_t)kv->d_head * KV_TOKENS;
    return (size_t)block * 2 * (size_t)kv->n_kv_head * part + (size_t)head * part;
}

static inline size_t kv_value_at(const struct kv_view *kv, int32_t block, int32_t head)
{
    return kv_key_at(kv, block, kv->n_kv_head + head);
}

struct kv_packed { /* q8 and k8v4: one head's parts of a block */
    int8_t *keys;
    uint16_t *key_scales;
    uint8_t *values; /* q8: int8 */
    uint16_t *value_scales;
    int32_t group; /* dimensions of a value scale */
};

static inline struct kv_packed kv_packed_at(const struct kv_view *kv, int32_t block, int32_t head)
{
    const bool four_bit = kv->type == KV_K8V4;
    const size_t d = (size_t)kv->d_head;
    char *at = (char *)kv->data + (size_t)block * kv->block_bytes +
               (size_t)head * KV_TOKENS * (size_t)kv_head_bytes(kv->d_head, kv->type);
    struct kv_packed p = {.keys = (int8_t *)at,
                          .key_scales = (uint16_t *)(void *)(at + d * KV_TOKENS),
                          .group = four_bit ? kv_value_group(kv->d_head) : kv->d_head};
    p.values = (uint8_t *)(p.key_scales + KV_TOKENS);
    p.value_scales = (uint16_t *)(void *)(p.values + (four_bit ? d / 2 : d) * KV_TOKENS);
    return p;
}
