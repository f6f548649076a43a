/* Turns GGUF's tensor infos into the model's tensor table: ggml's type numbers become weight types,
 * sizes and ranges are checked, and dimensions are reversed. */
#include "engine/format/gguf_tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/format/weight_block.h"

/* ggml's numbers. Sizes of the types that are not read here are given where they are settled, so
 * that their ranges are checked all the same. */
static const struct ggml_type {
    uint32_t number;
    const char *name;
    enum tensor_type type;
    enum weight_type block;
    int cols, size; /* of a block; TENSOR_BLOCK: asked of weight_block.h */
} types[] = {
    {0, "F32", TENSOR_F32, WEIGHT_NONE, 1, 4},
    {1, "F16", TENSOR_F16, WEIGHT_NONE, 1, 2},
    {30, "BF16", TENSOR_BF16, WEIGHT_NONE, 1, 2},
    {2, "Q4_0", TENSOR_BLOCK, WEIGHT_Q4_0, 0, 0},
    {3, "Q4_1", TENSOR_BLOCK, WEIGHT_Q4_1, 0, 0},
    {6, "Q5_0", TENSOR_BLOCK, WEIGHT_Q5_0, 0, 0},
    {7, "Q5_1", TENSOR_BLOCK, WEIGHT_Q5_1, 0, 0},
    {8, "Q8_0", TENSOR_BLOCK, WEIGHT_Q8_0, 0, 0},
    {10, "Q2_K", TENSOR_BLOCK, WEIGHT_Q2_K, 0, 0},
    {11, "Q3_K", TENSOR_BLOCK, WEIGHT_Q3_K, 0, 0},
    {12, "Q4_K", TENSOR_BLOCK, WEIGHT_Q4_K, 0, 0},
    {13, "Q5_K", TENSOR_BLOCK, WEIGHT_Q5_K, 0, 0},
    {14, "Q6_K", TENSOR_BLOCK, WEIGHT_Q6_K, 0, 0},
    {20, "IQ4_NL", TENSOR_BLOCK, WEIGHT_IQ4_NL, 0, 0},
    {23, "IQ4_XS", TENSOR_BLOCK, WEIGHT_IQ4_XS, 0, 0},
    {39, "MXFP4", TENSOR_BLOCK, WEIGHT_MXFP4_BLOCK, 0, 0},
    {9, "Q8_1", TENSOR_OTHER, WEIGHT_NONE, 32, 36},
    {16, "IQ2_XXS", TENSOR_OTHER, WEIGHT_NONE, 256, 66},
    {17, "IQ2_XS", TENSOR_OTHER, WEIGHT_NONE, 256, 74},
    {18, "IQ3_XXS", TENSOR_OTHER, WEIGHT_NONE, 256, 98},
    {19, "IQ1_S", TENSOR_OTHER, WEIGHT_NONE, 256, 50},
    {21, "IQ3_S", TENSOR_OTHER, WEIGHT_NONE, 256, 110},
    {22, "IQ2_S", TENSOR_OTHER, WEIGHT_NONE, 256, 82},
    {24, "I8", TENSOR_OTHER, WEIGHT_NONE, 1, 1},
    {25, "I16", TENSOR_OTHER, WEIGHT_NONE, 1, 2},
    {26, "I32", TENSOR_OTHER, WEIGHT_NONE, 1, 4},
    {27, "I64", TENSOR_OTHER, WEIGHT_NONE, 1, 8},
    {28, "F64", TENSOR_OTHER, WEIGHT_NONE, 1, 8},
    {29, "IQ1_M", TENSOR_OTHER, WEIGHT_NONE, 256, 56},
    {34, "TQ1_0", TENSOR_OTHER, WEIGHT_NONE, 256, 54},
    {35, "TQ2_0", TENSOR_OTHER, WEIGHT_NONE, 256, 66},
};

static const struct ggml_type *find_type(uint32_t number)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].number == number)
            return &types[i];
    return NULL;
}

struct range {
    uint64_t begin, end;
    const struct gguf_tensor *tensor;
};

static int by_begin(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Bytes of the tensor in *bytes; a type of unknown size is taken as empty and can never be used. */
static bool size_of(const struct tensor *t, const struct ggml_type *type, uint64_t *bytes,
                    struct err *e)
{
    *bytes = 0;
    if (!type)
        return true;
    uint64_t cols = (uint64_t)(type->cols ? type->cols : weight_block_cols(type->block));
    uint64_t size = type->cols ? (uint64_t)type->size : weight_block_size(type->block);
    int64_t count = tensor_count(t->dims, t->n_dims);
    int64_t row = t->n_dims ? t->dims[t->n_dims - 1] : 1;
    if (count < 0)
        return err_field(e, ERR_FORMAT, t->name, "tensor %s: its shape is larger than any file",
                         t->name);
    if ((uint64_t)row % cols)
        return err_field(e, ERR_FORMAT, t->name,
                         "tensor %s: rows of %" PRId64 " values are no blocks of %d", t->name, row,
                         (int)cols);
    *bytes = (uint64_t)count / cols * size;
    return true;
}

struct adding { /* the tensors of one file to a table */
    const struct gguf *g;
    int32_t file;
    struct tensor_table *table;
};

static bool add_one(const struct adding *a, const struct gguf_tensor *from, struct range *r,
                    struct err *e)
{
    const struct gguf *g = a->g;
    char name[256], unknown[16];
    snprintf(name, sizeof name, "%.*s", (int)from->name.len, from->name.at);
    const struct ggml_type *type = find_type(from->type);
    struct tensor t = {.name = name, .file = a->file, .n_dims = from->n_dims};
    for (int i = 0; i < t.n_dims; i++)
        t.dims[i] = from->dims[t.n_dims - 1 - i];
    snprintf(unknown, sizeof unknown, "type %u", from->type);
    t.type_name = type ? type->name : arena_strdup(a->table->arena, unknown);
    t.type = type ? type->type : TENSOR_OTHER;
    t.block = type ? type->block : WEIGHT_NONE;
    if (!t.type_name)
        return err_set(e, ERR_NOMEM, "no memory for tensor names");
    uint64_t room = g->size - g->data_start;
    if (!size_of(&t, type, &t.bytes, e))
        return false;
    if (from->offset % g->alignment)
        return err_field(e, ERR_FORMAT, name,
                         "tensor %s lies at %" PRIu64 ", which is no multiple of %" PRIu64, name,
                         from->offset, g->alignment);
    if (from->offset > room || t.bytes > room - from->offset)
        return err_field(e, ERR_FORMAT, name,
                         "tensor %s: %" PRIu64 " bytes at %" PRIu64 " in a data part of %" PRIu64
                         ": the file is cut short",
                         name, t.bytes, from->offset, room);
    t.data = g->data + g->data_start + from->offset;
    *r = (struct range){from->offset, from->offset + t.bytes, from};
    return tensor_table_add(a->table, &t, e);
}

bool gguf_add_tensors(const struct gguf *g, int32_t file, struct tensor_table *t, struct err *e)
{
    struct range *ranges = calloc((size_t)g->n_tensors + 1, sizeof *ranges);
    if (!ranges)
        return err_set(e, ERR_NOMEM, "no memory for %" PRIu64 " tensors", g->n_tensors);
    const struct adding adding = {.g = g, .file = file, .table = t};
    bool ok = true;
    for (uint64_t i = 0; ok && i < g->n_tensors; i++)
        ok = add_one(&adding, &g->tensors[i], &ranges[i], e);
    if (ok)
        qsort(ranges, (size_t)g->n_tensors, sizeof *ranges, by_begin);
    for (uint64_t i = 1; ok && i < g->n_tensors; i++)
        if (ranges[i].begin < ranges[i - 1].end) {
            const struct gguf_string *a = &ranges[i - 1].tensor->name, *b = &ranges[i].tensor->name;
            ok = err_set(e, ERR_FORMAT, "tensors %.*s and %.*s overlap in the file", (int)a->len,
                         a->at, (int)b->len, b->at);
        }
    free(ranges);
    return ok;
}
