/* Where keys and values lie within a layer's storage (see struct kv_view). Offsets count values. */
#pragma once
#include "engine/backend/backend.h"
#include "engine/cpu/kernels/kernels.h"

#define KV_TOKENS BACKEND_BLOCK_TOKENS

static inline size_t kv_block_values(int32_t n_kv_head, int32_t d_head)
{
    return 2 * (size_t)n_kv_head * (size_t)d_head * KV_TOKENS;
}

static inline size_t kv_key_at(const struct kv_view *kv, int32_t block, int32_t head)
{
    return (size_t)block * kv->block_values + (size_t)head * (size_t)kv->d_head * KV_TOKENS;
}

static inline size_t kv_value_at(const struct kv_view *kv, int32_t block, int32_t head)
{
    return kv_key_at(kv, block, kv->n_kv_head + head);
}
