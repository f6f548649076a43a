/* From a family's tensor names to the plan's weights: one checked look-up per weight. Knows where
 * the formats put their parts (MLX's .scales and .biases, stacked and per-expert layouts, GGUF's
 * blocks), so that a family file is a table of names and shapes.
 *
 * Failures stick, as in config.h: missing tensors are collected and named together at the end, any
 * other fault is kept as it is. Used inside model_open only; one thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/format/tensors.h"
#include "engine/model/config.h"
#include "engine/model/plan.h"

/* A module's name in each kind of file, relative to the layer; alternatives separated by '|'.
 * NULL: that kind does not have it. ".weight" is understood. */
struct names {
    const char *hf, *gguf;
};

struct tensor_manifest;

struct binder {
    struct tensor_manifest
        *manifest; /* not NULL: names and shapes are noted there, nothing is looked up */
    struct tensor_table *tensors;
    const struct config *config;
    struct arena *arena; /* for vectors and tables: the model's */
    bool gguf;
    const char *model_prefix; /* "model.", "language_model.model.", ... */
    const char *head_prefix;  /* in front of lm_head, and of names while `outside` is set */
    const char *layer_word;   /* "layers"; BERT's: "encoder.layer" */
    bool outside;             /* names are those of a head beside the model (a classifier) */
    int32_t layer;            /* names are relative to it; -1: to the model */
    uint64_t copied_bytes;    /* of matrices that had to be laid out anew */
    bool failed;
    struct err failure;
    int n_missing;
    char missing[224];
};

/* Finds the prefixes. */
void bind_init(struct binder *b, struct tensor_table *tensors, const struct config *c,
               struct arena *arena);
/* True when nothing went wrong; else *e says what. */
bool bind_finish(const struct binder *b, struct err *e);
/* Keeps the first failure; always returns false. */
bool bind_fail(struct binder *b, enum err_code code, const char *tensor, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Whether any of the alternatives is in the file. */
bool bind_has(const struct binder *b, struct names n);
/* The tensor itself ("X.weight", else "X"), marked as used; NULL when absent, which is no failure.
 * The full module path goes to path when that is not NULL. */
struct tensor *bind_find(struct binder *b, struct names n, char *path, size_t size);
/* Notes a missing tensor. */
void bind_missing(struct binder *b, struct names n);

void bind_matrix(struct binder *b, struct weight *w, struct names n, int32_t rows, int32_t cols);
/* Rows first, first + step, ... of a fused tensor with `of` rows. */
struct row_slice {
    int32_t first, step, of;
};
struct stack_shape {
    int32_t n_matrix;       /* 0: a plain matrix */
    int32_t rows, cols;     /* of each matrix as it is viewed */
    struct row_slice slice; /* which rows of the tensor these are; `of` 0: all of them */
};
/* A stack [n_matrix, rows, cols] or a plain matrix in one tensor, all rows or a slice of them. */
void bind_stack(struct binder *b, struct weight *w, struct names n, const struct stack_shape *s);
/* Routed experts: stacked, fused, or one tensor each; sizes are those in *m. bind_experts.c */
void bind_experts(struct binder *b, struct moe_plan *m, int32_t d_model);
/* The layouts of gpt-oss: gate and up interleaved row by row, MXFP4 blocks in four dimensions or
 * transposed bf16; and their biases. bind_gpt_oss.c */
void bind_gpt_oss_experts(struct binder *b, struct moe_plan *m, int32_t d_model);
/* Checks "[n_matrix, rows, cols]" (n_matrix 0: two dimensions). */
bool bind_want_shape(struct binder *b, const struct tensor *t, int32_t n_matrix, int64_t rows,
                     int64_t cols);
/* Dense feed-forward of d_ff rows under `hf` ("mlp") and with `gguf_suffix` ("" or "_shexp"). */
void bind_mlp(struct binder *b, struct mlp_plan *m, struct names n, int32_t d_ff, int32_t d_model);

struct vector_slices {
    int32_t n_runs, count;  /* `count` values are taken of each run */
    struct row_slice slice; /* values first, first + step, ... of a run of `of` */
};
/* Slices of one tensor, side by side in one vector: the biases of fused experts. */
void bind_vector_slices(struct binder *b, struct vector *v, struct names n,
                        const struct vector_slices *s);
/* f32 copies; every value must be finite. The file's shape may have any dimensions whose product is
 * n. */
void bind_vector(struct binder *b, struct vector *v, struct names n, int32_t count);
void bind_vector_optional(struct binder *b, struct vector *v, struct names n, int32_t count);
