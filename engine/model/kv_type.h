/* How keys and values are stored: the formats, and the bytes of each, in one place for the memory
 * plan, both backends and whoever keeps blocks elsewhere. Pure arithmetic; any thread.
 *
 * q8 and k8v4 store rotated heads: an orthogonal transform (Hadamard) spreads a head's outliers
 * over all its dimensions, so that one scale fits them. Queries are rotated as well, which leaves
 * q.k as it was, and what attention gives is rotated back. Per token and head: keys    d_head int8,
 * one f16 scale: value = scale * int8 values  q8: the same; k8v4: d_head nibbles, an f16 scale for
 * each group of KV_GROUP of them (of KV_SMALL_GROUP if the former does not divide d_head): value =
 * scale * (nibble - 8) Layers with a window are stored like the others: their blocks are kept for
 * the whole context too, so 16 bits there would cost most of what the others save. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/model/plan.h"

#define KV_TYPE_CHOICES "auto|f16|q8|k8v4" /* for option tables */
#define KV_GROUP 32
#define KV_SMALL_GROUP 16
#define KV_MAX_D_HEAD 512 /* of q8 and k8v4: sums of a head's products fit into 32 bits */

enum kv_type {
    KV_AUTO, /* to be chosen; to a backend the same as KV_F16 */
    KV_F16,
    KV_Q8,
    KV_K8V4,
    KV_F32, /* in place of f16 where activations are exact or the processor has no halves */
    KV__N
};

static inline const char *kv_type_name(enum kv_type t)
{
    static const char *const names[KV__N] = {
        [KV_AUTO] = "auto", [KV_F16] = "f16", [KV_Q8] = "q8", [KV_K8V4] = "k8v4", [KV_F32] = "f32"};
    return t >= 0 && t < KV__N ? names[t] : "unknown";
}

/* True if heads are stored rotated, as integers with scales. */
static inline bool kv_type_packed(enum kv_type t)
{
    return t == KV_Q8 || t == KV_K8V4;
}

/* What is stored where this type is asked for. halves: f16 can be read at full speed and is exact
 * enough. */
static inline enum kv_type kv_type_stored(enum kv_type t, bool halves)
{
    return kv_type_packed(t) ? t : halves ? KV_F16 : KV_F32;
}

static inline int32_t kv_value_group(int32_t d_head)
{
    return d_head % KV_GROUP ? KV_SMALL_GROUP : KV_GROUP;
}

/* Dimensions that are rotated together: the largest power of two that divides the head. */
static inline int32_t kv_rotation(int32_t d_head)
{
    return d_head & -d_head;
}

/* Bytes of one token's key and value in one head. */
static inline uint64_t kv_head_bytes(int32_t d_head, enum kv_type stored)
{
    const uint64_t d = (uint64_t)d_head;
    switch (stored) {
    case KV_Q8:
        return 2 * (d + 2);
    case KV_K8V4:
        return d + 2 + d / 2 + 2 * (d / (uint64_t)kv_value_group(d_head));
    case KV_F32:
        return 2 * d * 4;
    default:
        return 2 * d * 2;
    }
}

/* Bytes of one token in all layers. */
static inline uint64_t kv_token_bytes(const struct model_plan *p, enum kv_type stored)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < p->n_layer; i++)
        if (p->layers[i].mixer == MIXER_ATTENTION)
            sum += (uint64_t)p->layers[i].attention.n_kv_head *
                   kv_head_bytes(p->layers[i].attention.d_head, stored);
    return sum;
}
