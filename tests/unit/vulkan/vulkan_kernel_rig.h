/* Packed matrices on the device beside their numbers, and the tolerances of comparing products. */
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/vulkan/vulkan_rig.h"

#define F32_TOLERANCE 2e-6
#define HALF_SIGMAS 8.0
#define HALF_ROUNDING (1.0 / 2048)
#define MAX_PARTS 3
extern struct rig rig;
extern unsigned seed;

struct stack { /* matrices one below the other, packed and as numbers */
    struct random_weight part[MAX_PARTS];
    const struct weight *w[MAX_PARTS];
    int n, rows, cols; /* rows: of all parts and all their matrices */
    float *at;         /* [rows, cols] */
    struct device_matrix m;
};

void expand(const struct weight *w, float *out);

/* n parts of n_matrix [rows[i], cols] each. */
void stack_init(struct stack *s, const struct weight_form *f, int n_matrix, const int *rows, int n,
                int cols);

void stack_fini(struct stack *s);
uint32_t padded(int n);

/* rows of `cols` values away from zero, `stride` apart. */
void randomize(float *at, int rows, int cols, uint32_t stride, float scale);

struct sum { /* a product's value, and what its tolerance comes from */
    double v, magnitude, square;
    double sides; /* sum of |w| + |x| */
};

struct sum product(const float *w, const float *x, const float *norm, double factor, int n);
double rms_factor(const float *x, int n);
double tolerance(const struct sum *s, bool halves);
bool close_to(double have, double want, double tol);
int cols_of(const struct weight_form *f, int steps);

/* Whether form f takes turn i of n. All, but where shaders run on the cpu, whose compiler works for
 * half a second on each of these kernels: there one of them, the next form the next. */
bool takes(const struct weight_form *f, int i, int n);
/* There also: which of the affine forms, or of the blocks, it is. These are variants of one module,
 * so what is no matter of how a chunk is decoded is shared out among them. -1: it takes all. */
int turn_of(const struct weight_form *f);

/* Without matrix units, and with them where the device has such. */
void both_ways(void (*check)(const struct weight_form *f), const struct weight_form *f);

/* Products by matmul_wide from now on where the form has it, on whatever arithmetic there is: on
 * the matrix units all forms, else some, for which modules without units are built. False: none. */
bool whole_tiles_begin(const struct weight_form *f);
void whole_tiles_end(void);
/* The same for products by matmul_few. */
bool few_rows_begin(const struct weight_form *f);
void few_rows_end(void);
/* Case i of n: on matrix units each form takes all, else each of the few a third of them. */
bool takes_whole(const struct weight_form *f, int i);

float value_of_half(uint32_t h);
/* Where column i stands in the order of few_order.glsl. */
int units_place(int i);
/* n rows of d halves to that order, as router.comp writes them. */
void to_units_order(uint32_t *halves, int n, int d);
/* A row of d columns cast for the experts' products: its halves begin at half number `first`. */
void check_cast_row(const float *row, const float *norm, int d, const uint32_t *halves, int first,
                    bool units);
/* How many pairs the experts' lists have, of `places` each; every one must be of its expert. */
uint32_t check_lists(const int32_t *ids, const uint32_t *counts, const uint32_t *lists,
                     int n_expert, int places);
