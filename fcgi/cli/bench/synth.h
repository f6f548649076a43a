/* Random numbers in the packed forms of weights, by the gigabyte: the same seed gives the same
 * bytes. Scales are set so that activations keep their size from layer to layer: a matrix of n
 * columns has values of standard deviation gain / sqrt(n). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/format/tensor_file.h"

struct synth_random {
    uint64_t state[4]; /* xoshiro256** */
};

void synth_seed(struct synth_random *r, uint64_t seed);
void synth_bytes(struct synth_random *r, void *out, size_t len);
/* ERR_LIMIT unless the disk that holds `path` (a file to be made, or a folder) has room for that
 * many bytes and some. */
bool synth_space(const char *path, uint64_t bytes, struct err *e);

enum synth_type { SYNTH_F32, SYNTH_F16, SYNTH_BF16, SYNTH_AFFINE, SYNTH_MXFP4 };

struct synth_format {
    enum synth_type type;
    int bits, group;
};

struct synth_values { /* n values, uniformly distributed */
    uint64_t n;
    double mean, deviation;
};
/* The values as F32, F16 or BF16. */
bool synth_values(struct tensor_writer *w, struct synth_random *r, enum synth_type type,
                  const struct synth_values *v, struct err *e);
/* The planes of packed matrices with that many values, whose mean is 0: codes, then scales, then
 * (AFFINE) biases. */
bool synth_codes(struct tensor_writer *w, struct synth_random *r, const struct synth_format *f,
                 uint64_t values, struct err *e);
bool synth_scales(struct tensor_writer *w, struct synth_random *r, const struct synth_format *f,
                  const struct synth_values *v, struct err *e);
bool synth_biases(struct tensor_writer *w, const struct synth_format *f, uint64_t values,
                  double deviation, struct err *e);
