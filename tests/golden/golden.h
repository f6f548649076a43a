/* What golden tests share: where the data are, rows of logits for ids, distances. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/format/tensor_file.h"
#include "engine/tokenizer/tokenizer.h"
#include "fcgi/cli/cli_run.h"

/* srcdir/NAME; static storage, two at a time. */
const char *golden_path(const char *name);
/* Appends a tensor of I32 ids. */
bool golden_ids(const struct tensor_file *f, const char *name, struct ids *out, struct err *e);

struct golden_rows { /* logits of the wanted rows, in order */
    float *at;       /* [n, n_vocab] */
    int32_t n, n_vocab;
};
void golden_rows_free(struct golden_rows *r);
/* Feeds ids through sequence `sequence` from position `start` and appends the logits of the last
 * n_out. */
bool golden_feed(struct cli_run *r, int32_t sequence, const int32_t *ids, int32_t n, int32_t start,
                 int32_t n_out, struct golden_rows *out, struct err *e);
/* Largest absolute difference; NaN counts as infinity. */
float golden_distance(const float *a, const float *b, size_t n);
/* Index of the greatest; equal ones: the first. */
int32_t golden_argmax(const float *row, int32_t n);
/* Whether the backend is Vulkan by lavapipe, which runs shaders on the CPU: then tests take fewer
 * rows of the same kernels. */
bool golden_slow_device(const char *backend);
