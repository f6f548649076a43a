/* `sluice synth --format gguf-...`: one GGUF file of a synthetic shape, with llama.cpp's names and
 * metadata, without a tokenizer. Blocks hold random codes; their scales are set so that a row of n
 * columns has the wanted deviation. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "fcgi/cli/bench/synth_shape.h"

#define SYNTH_GGUF_FORMATS                                                                         \
    "gguf-q4_k_m|gguf-mxfp4|gguf-q8_0|gguf-q4_0|gguf-q4_1|gguf-q5_0|gguf-q5_1|gguf-q2_k|gguf-q3_"  \
    "k|gguf-q4_k|gguf-q5_k|"                                                                       \
    "gguf-q6_k|gguf-iq4_nl|gguf-iq4_xs|gguf-f16|gguf-bf16"

struct synth_gguf_params {
    const struct synth_shape *shape;
    const char *format; /* one of SYNTH_GGUF_FORMATS */
    const char *config; /* path of the shape's config.json, which names the tensors */
    const char *folder; /* gets model.gguf */
    uint64_t seed;
};
/* *bytes of data in *n_tensors tensors. */
bool synth_gguf(const struct synth_gguf_params *p, uint64_t *bytes, int32_t *n_tensors,
                struct err *e);
