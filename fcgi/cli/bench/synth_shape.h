/* The shape of a synthetic model: what the options say, on top of a preset, and its config.json. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

struct synth_shape {
    const char *family;
    int64_t hidden, layers, heads, kv_heads, head_dim, vocab, context;
    int64_t experts, top_k, inter; /* routed experts, each of width inter; 0 experts: dense */
    int64_t shared_inter;          /* shared expert's width; 0: none */
    int64_t dense_layers,
        dense_inter; /* first layers without experts (bailing), or all (qwen3, llama) */
    int64_t linear_k_heads, linear_v_heads, linear_dim; /* DeltaNet (qwen3_5_moe) */
    int64_t groups, groups_used;                        /* group-limited routing (bailing) */
    int64_t window; /* gpt_oss: sliding window of every other layer */
    bool tied;
};

/* NULL: no preset of that name. */
const struct synth_shape *synth_preset(const char *name);
/* "a|b|c" for the help. */
#define SYNTH_PRESETS                                                                              \
    "demo|qwen3-30b-a3b|qwen3.6-35b-a3b|qwen3.5-122b-a10b|ling-flash-2.0|ling-mini-2.0|gpt-oss-"   \
    "20b|gpt-oss-120b|qwen3-0.6b"
#define SYNTH_FAMILIES "qwen3_moe|qwen3_5_moe|bailing_moe|gpt_oss|qwen3|llama"
/* Where *own is not zero it takes the place of the preset's value. */
void synth_override(struct synth_shape *s, const struct synth_shape *own);
/* config.json without the closing brace and quantization: "{...". eos < 0: none. */
bool synth_config(const struct synth_shape *s, int64_t eos, const char *dtype, struct buf *out,
                  struct err *e);
