/* The tensors that a configuration asks for, without any weights: made by running the family
 * against a binder that notes names and shapes instead of looking them up. `sluice synth` writes
 * models from it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct tensor_manifest_item {
    const char *path; /* the module's: "model.layers.0.mlp.gate", without ".weight" */
    bool is_vector;
    bool has_weight;    /* the tensor's name is path + ".weight"; else path itself */
    int32_t n_matrix;   /* 0: a plain matrix */
    int32_t rows, cols; /* a vector's length is in cols */
    int32_t layer;      /* -1: outside of layers */
};

struct tensor_manifest {
    struct arena *arena; /* names */
    struct tensor_manifest_item *items;
    int32_t n, cap;
    const char *family;
    int32_t n_vocab, n_layer;
};

/* config: path of a config.json. gguf: names as GGUF files have them ("blk.0.attn_q"). */
bool tensor_manifest_open(struct tensor_manifest *o, const char *config, bool gguf, struct err *e);
void tensor_manifest_close(struct tensor_manifest *o);
/* Used by the binder. False when memory ran out. */
bool tensor_manifest_add(struct tensor_manifest *o, const struct tensor_manifest_item *item);
