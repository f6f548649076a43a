/* Random weights of every format for the cpu tests. */
#pragma once
#include "engine/format/weight.h"

struct random_weight {
    struct weight w;
    unsigned char *data, *scales, *biases;
};

struct weight_form { /* a format, and what names it */
    const char *name;
    enum weight_type type;
    int bits, group;
    enum scale_type scale;
    int cols_step; /* columns come in multiples of this */
};

extern const struct weight_form weight_forms[];
extern const int n_weight_forms;
/* By name. Aborts: there is none. */
const struct weight_form *weight_form_of(const char *name);

/* Stack of n_matrix [rows, cols]; rows are `gap` bytes further apart than they are long. Values are
 * of order 1; the seed decides them. */
void random_weight_init(struct random_weight *r, const struct weight_form *f, int n_matrix,
                        int rows, int cols, int gap, unsigned seed);
void random_weight_fini(struct random_weight *r);
/* Uniform in -1..1. */
float random_unit(unsigned *state);

/* A row times a vector in double precision; sum: of the products without their signs. steps: what
 * the vector's rounding to integers is measured in, where 32 and where 256 columns share a scale:
 * the largest value of each such part by the sum of the row's there, without their signs. */
struct plain_product {
    double value, sum, steps[2];
};
struct plain_product plain_product(const float *row, const float *v, int cols);
