/* The tensors of all files of a model: name, shape, type, and where the bytes lie in the mapped
 * file. Filled by the readers (safetensors.c, gguf.c), looked up by bind.c. What a reader adds has
 * passed its checks: the range lies in the file, its size agrees with shape and type, names are
 * unique.
 *
 * Belongs to one thread while it is filled; names live in the model's arena. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/format/weight.h"

#define TENSOR_MAX_DIMS 8
#define TENSOR_MAX_COUNT                                                                           \
    (1 << 20) /* tensors of one model; DeepSeek-sized folders have about 100 000 */

enum tensor_type {               /* GGUF's block types are named as the weights they become */
                   TENSOR_OTHER, /* known to the format, of no use here: integers, 8-bit floats, ...
                                  */
                   TENSOR_F32,
                   TENSOR_F16,
                   TENSOR_BF16,
                   TENSOR_U32,   /* MLX's packed words */
                   TENSOR_U8,    /* codes and E8M0 scales */
                   TENSOR_BLOCK, /* GGUF: `block` says which weight type */
};

struct tensor {
    const char *name;
    enum tensor_type type;
    enum weight_type block; /* TENSOR_BLOCK only */
    const char *type_name;  /* as the file says it, for messages */
    int n_dims;
    int64_t dims[TENSOR_MAX_DIMS]; /* outermost first, GGUF's turned round */
    const uint8_t *data;
    uint64_t bytes;
    int32_t file;
    bool used;
};

struct tensor_table {
    struct arena *arena; /* not owned */
    struct tensor *at;
    int32_t n, cap;
    int32_t *slots; /* hash index: position + 1, 0 = empty */
    uint32_t n_slots;
};

void tensor_table_init(struct tensor_table *t, struct arena *arena);
void tensor_table_fini(struct tensor_table *t);
/* Copies *one (its name too). ERR_FORMAT for a name that is there already, ERR_LIMIT for too many.
 */
bool tensor_table_add(struct tensor_table *t, const struct tensor *one, struct err *e);
/* NULL when there is none. */
struct tensor *tensor_table_find(const struct tensor_table *t, const char *name);
/* Product of the dimensions; -1 when it does not fit 2^53 (nothing real is that large). */
int64_t tensor_count(const int64_t *dims, int n_dims);
/* "[24, 128, 64]" in buf. */
const char *tensor_shape_text(const struct tensor *t, char *buf, size_t size);
