/* Every Vulkan kernel that multiplies with packed weights against weight_row_f32, for every weight format: rows of W and of
 * x that fill no tile, one block of columns and several, 1 to 9 experts, unaligned files, stacks of several tensors; the products
 * of many rows with and, where the device has them, with matrix units. The sums of the reference are in double.
 *
 * Tolerances: with f32 activations 2e-6 of the sum of magnitudes; of many rows 8 standard deviations of what rounding
 * both sides to halves gives, or f32's where both halves of each number are carried. That they are tight enough is itself
 * tested: of the bytes of a packed row, nine in ten must be seen when they change. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/vulkan_rig.h"

#define F32_TOLERANCE 2e-6
#define HALF_SIGMAS 8.0
#define HALF_ROUNDING (1.0 / 2048)
#define MAX_PARTS 3

static struct rig rig;
static unsigned seed = 1;

struct stack { /* matrices one below the other, packed and as numbers */
    struct random_weight part[MAX_PARTS];
    const struct weight *w[MAX_PARTS];
    int n, rows, cols; /* rows: of all parts and all their matrices */
    float *at;         /* [rows, cols] */
    struct device_matrix m;
};

static void expand(const struct weight *w, float *out)
{
    for (int k = 0; k < w->n_matrix; k++)
        for (int i = 0; i < w->rows; i++)
            weight_row_f32(w, k, i, out + ((size_t)k * (size_t)w->rows + (size_t)i) * (size_t)w->cols);
}

/* n parts of n_matrix [rows[i], cols] each. */
static void stack_init(struct stack *s, const struct weight_form *f, int n_matrix, const int *rows, int n, int cols)
{
    *s = (struct stack){.n = n, .cols = cols};
    for (int i = 0; i < n; i++) {
        random_weight_init(&s->part[i], f, n_matrix, rows[i], cols, 3, seed++);
        s->w[i] = &s->part[i].w;
        s->rows += n_matrix * rows[i];
    }
    s->at = malloc((size_t)s->rows * (size_t)cols * sizeof *s->at);
    for (int i = 0, at = 0; i < n; at += n_matrix * rows[i++])
        expand(s->w[i], s->at + (size_t)at * (size_t)cols);
    rig_upload(&rig, s->w, n, &s->m);
}

static void stack_fini(struct stack *s)
{
    for (int i = 0; i < s->n; i++)
        random_weight_fini(&s->part[i]);
    free(s->at);
}

static uint32_t padded(int n)
{
    return (uint32_t)(n + 31) / 32 * 32;
}

/* rows of `cols` values away from zero, `stride` apart. */
static void randomize(float *at, int rows, int cols, uint32_t stride, float scale)
{
    for (int i = 0; i < rows; i++)
        for (int c = 0; c < cols; c++) {
            float v = random_unit(&seed);
            at[(size_t)i * stride + (size_t)c] = scale * (v < 0 ? v * 0.75f - 0.25f : v * 0.75f + 0.25f);
        }
}

struct sum { /* a product's value, and what its tolerance comes from */
    double v, magnitude, square;
    double sides; /* sum of |w| + |x| */
};

static struct sum product(const float *w, const float *x, const float *norm, double factor, int n)
{
    struct sum s = {0};
    for (int i = 0; i < n; i++) {
        double p = (double)w[i] * (double)x[i] * (norm ? (double)norm[i] * factor : 1);
        s.v += p;
        s.magnitude += fabs(p);
        s.square += p * p;
        s.sides += fabs((double)w[i]) + fabs((double)x[i] * (norm ? (double)norm[i] * factor : 1));
    }
    return s;
}

static double rms_factor(const float *x, int n)
{
    double squares = 0;
    for (int i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    return 1 / sqrt(squares / n + 1e-6);
}

/* Both sides as two halves each: the product of the two rests is left out, and a small rest is
 * rounded to a multiple of 2^-35 at most. */
static double split_tolerance(const struct sum *s)
{
    return F32_TOLERANCE * (s->magnitude + fabs(s->v) + 1) + 0x1p-21 * s->magnitude + 0x1p-34 * s->sides;
}

static double tolerance(const struct sum *s, bool halves)
{
    return F32_TOLERANCE * (s->magnitude + fabs(s->v) + 1) + (halves ? HALF_SIGMAS * HALF_ROUNDING * sqrt(2 * s->square) : 0);
}

static bool close_to(double have, double want, double tol)
{
    return fabs(have - want) <= tol; /* false for NaN */
}

/* --- y (+)= W norm(x) + bias --- */

struct linear_case {
    int rows[MAX_PARTS], n_parts;
    int steps; /* of the format's columns */
    int n_x;
    bool norm, bias, add, gather;
    uint32_t rows_each; /* of W for a subgroup */
};

static const struct linear_case linear_cases[] = {
    {.rows = {1}, .n_parts = 1, .steps = 1, .n_x = 1, .rows_each = 1},
    {.rows = {10, 20, 7}, .n_parts = 3, .steps = 3, .n_x = 33, .norm = true, .bias = true, .rows_each = 1},
    {.rows = {70}, .n_parts = 1, .steps = 2, .n_x = 3, .add = true, .gather = true, .rows_each = 1},
    {.rows = {1027}, .n_parts = 1, .steps = 1, .n_x = 1, .norm = true, .bias = true, .rows_each = 2},
};
static const struct linear_case wide_cases[] = {
    {.rows = {10, 20, 7}, .n_parts = 3, .steps = 3, .n_x = 9, .bias = true, .norm = true},
    {.rows = {130}, .n_parts = 1, .steps = 1, .n_x = 33, .add = true},
    {.rows = {67}, .n_parts = 1, .steps = 2, .n_x = 75, .norm = true},
};

struct linear { /* a case with its data */
    const struct linear_case *c;
    struct stack w;
    struct rig_span x, norm, y, before, bias, gather;
    uint32_t x_stride, y_stride;
    bool wide, split;
};

static int cols_of(const struct weight_form *f, int steps)
{
    return f->cols_step > 1 ? f->cols_step * steps : steps == 1 ? 33 : 29 + 48 * steps;
}

static void linear_init(struct linear *l, const struct linear_case *c, const struct weight_form *f)
{
    int cols = cols_of(f, c->steps), n_in = c->n_x + 2;
    *l = (struct linear){.c = c};
    rig_clear(&rig);
    stack_init(&l->w, f, 1, c->rows, c->n_parts, cols);
    l->x_stride = padded(cols);
    l->y_stride = (uint32_t)l->w.rows + 5;
    l->x = rig_take(&rig, (size_t)n_in * l->x_stride);
    l->norm = rig_take(&rig, l->x_stride);
    l->y = rig_take(&rig, (size_t)c->n_x * l->y_stride);
    l->before = rig_take(&rig, (size_t)c->n_x * l->y_stride);
    l->bias = rig_take(&rig, (size_t)l->w.rows);
    l->gather = rig_take(&rig, (size_t)c->n_x);
    randomize(l->x.f, n_in, cols, l->x_stride, 1);
    randomize(l->norm.f, 1, cols, 0, 1);
    randomize(l->bias.f, 1, l->w.rows, 0, 1);
    randomize(l->y.f, c->n_x, l->w.rows + 5, l->y_stride, 1);
    memcpy(l->before.f, l->y.f, (size_t)c->n_x * l->y_stride * 4);
    for (int i = 0; i < c->n_x; i++)
        l->gather.i[i] = (i * 5 + 1) % n_in;
    rig.plan.d_model = cols;
    rig.b.workspace.x_hi = rig_take(&rig, (size_t)n_in * l->x_stride / 2).at;
    rig.b.workspace.x_lo = rig_take(&rig, (size_t)n_in * l->x_stride / 2).at;
}

static void linear_run(struct linear *l)
{
    const struct linear_case *c = l->c;
    struct err e = {0};
    struct linear_op op = {.label = "test", .w = &l->w.m, .x = l->x.at, .norm = c->norm ? l->norm.at : 0, .y = l->y.at,
                           .bias = c->bias ? l->bias.at : 0, .gather = c->gather ? l->gather.at : 0, .x_stride = l->x_stride,
                           .y_stride = l->y_stride, .n_x = (uint32_t)c->n_x, .eps = 1e-6f, .add = c->add};
    rig.b.tuning.linear_rows = c->rows_each;
    struct recorder r = rig_begin(&rig, (uint32_t)c->n_x, &e);
    if (l->wide) {
        record_cast_f16(&r, &(struct cast_f16_op){.x = op.x, .norm = op.norm, .x_stride = op.x_stride, .n_chunk = op.x_stride / 32,
                                              .n_x = op.n_x, .eps = op.eps, .split = l->split});
        record_barrier(&r);
        record_gemm_linear(&r, &op, l->split);
    } else {
        record_linear(&r, &op);
    }
    rig_end(&r);
}

/* Index of the first wrong value, -1: all are right. */
static int linear_wrong(const struct linear *l)
{
    const struct linear_case *c = l->c;
    for (int t = 0; t < c->n_x; t++) {
        const float *x = l->x.f + (size_t)(c->gather ? l->gather.i[t] : t) * l->x_stride;
        double factor = c->norm ? rms_factor(x, l->w.cols) : 1;
        for (int i = 0; i < (int)l->y_stride; i++) {
            size_t at = (size_t)t * l->y_stride + (size_t)i;
            struct sum s = {.v = l->before.f[at]};
            if (i < l->w.rows) {
                s = product(l->w.at + (size_t)i * (size_t)l->w.cols, x, c->norm ? l->norm.f : NULL, factor, l->w.cols);
                s.v += (c->bias ? (double)l->bias.f[i] : 0) + (c->add ? (double)l->before.f[at] : 0);
            }
            double allowed = i >= l->w.rows ? 0 : l->split ? split_tolerance(&s) : tolerance(&s, l->wide);
            if (!close_to(l->y.f[at], s.v, allowed)) {
                print_message("want %.9g, have %.9g, allowed %.3g\n", s.v, (double)l->y.f[at], allowed);
                return (int)at;
            }
        }
    }
    return -1;
}

static void linear_check(const struct linear_case *c, const struct weight_form *f, bool wide, bool split)
{
    struct linear l;
    linear_init(&l, c, f);
    l.wide = wide;
    l.split = split;
    linear_run(&l);
    int wrong = linear_wrong(&l);
    if (wrong >= 0)
        fail_msg("%s, %d x %d, %d rows of x%s: row %d of x, row %d is wrong: %g", f->name, l.w.rows, l.w.cols, c->n_x,
                 !wide ? "" : split ? ", two halves" : ", halves", wrong / (int)l.y_stride, wrong % (int)l.y_stride,
                 (double)l.y.f[wrong]);
    stack_fini(&l.w);
}

static void test_linear(void **state)
{
    for (size_t i = 0; i < sizeof linear_cases / sizeof *linear_cases; i++)
        linear_check(&linear_cases[i], *state, false, false);
}

/* Whether form f takes turn i of n. All, but where shaders run on the cpu, whose compiler works for half a second on each of
 * these kernels: there one of them, the next form the next. */
static bool takes(const struct weight_form *f, int i, int n)
{
    return !rig.b.gpu.caps.software || (f - weight_forms) % n == i;
}

static void check_wide_linear(const struct weight_form *f)
{
    enum { N = sizeof wide_cases / sizeof *wide_cases };
    for (int i = 0; i < N; i++)
        for (int split = 0; split < 2; split++)
            if (takes(f, (i + split) % N, N))
                linear_check(&wide_cases[i], f, true, split);
}

/* Without matrix units, and with them where the device has such. */
static void both_ways(void (*check)(const struct weight_form *f), const struct weight_form *f)
{
    const bool units = rig.b.gpu.caps.cooperative_matrix;
    rig.b.gpu.caps.cooperative_matrix = false;
    check(f);
    rig.b.gpu.caps.cooperative_matrix = units;
    if (units)
        check(f);
}

static void test_wide_linear(void **state)
{
    both_ways(check_wide_linear, *state);
}

/* What the kernel computed must not fit weights that differ in one byte. */
static void test_a_changed_byte_is_seen(void **state)
{
    const struct weight_form *f = *state;
    struct linear l;
    linear_init(&l, &linear_cases[0], f);
    linear_run(&l);
    assert_int_equal(linear_wrong(&l), -1);
    const struct weight *w = l.w.w[0];
    const bool is_float = w->type <= WEIGHT_BF16;
    size_t n = weight_row_size(w), step = is_float ? n / (size_t)w->cols : 1, seen = 0;
    for (size_t i = step - 1; i < n; i += step) {
        l.w.part[0].data[1 + i] ^= is_float ? 0x04 : 0x11; /* a bit of the exponent; a bit of both nibbles */
        expand(w, l.w.at);
        seen += linear_wrong(&l) >= 0;
        l.w.part[0].data[1 + i] ^= is_float ? 0x04 : 0x11;
    }
    if (seen * 10 < n / step * 9)
        fail_msg("%s: of %zu changed bytes %zu are seen", f->name, n / step, seen);
    stack_fini(&l.w);
}

/* --- the embedding's rows --- */

static void test_embed(void **state)
{
    const struct weight_form *f = *state;
    enum { ROWS = 19, N = 6 };
    static const int32_t tokens[N] = {0, 18, 7, 7, 1, 12};
    const int rows = ROWS, cols = cols_of(f, 3);
    struct err e = {0};
    struct stack w;
    rig_clear(&rig);
    stack_init(&w, f, 1, &rows, 1, cols);
    struct rig_span x = rig_take(&rig, N * (size_t)padded(cols)), token = rig_take(&rig, N * 4);
    for (int i = 0; i < N; i++)
        token.rows[i][0] = tokens[i];
    rig.b.model.embed = w.m;
    rig.b.step.at_rows = token.at;
    rig.b.workspace.x = x.at;
    struct recorder r = rig_begin(&rig, N, &e);
    record_embed(&r);
    rig_end(&r);
    for (int i = 0; i < N; i++)
        for (int c = 0; c < (int)padded(cols); c++) {
            float have = x.f[(size_t)i * padded(cols) + (size_t)c];
            float want = c < cols ? w.at[(size_t)tokens[i] * (size_t)cols + (size_t)c] : 0;
            if (!close_to(have, want, 1e-6 * (fabs((double)want) + 16)))
                fail_msg("%s: token %d, column %d is %g, want %g", f->name, tokens[i], c, (double)have, (double)want);
        }
    stack_fini(&w);
}

/* --- experts --- */

struct experts {
    const struct weight_form *f;
    int n_expert, n_used, n_x, d, d_ff;
    bool clamp, bias, routed, gated; /* gated: not routed, weight from a logit */
    struct moe_plan moe;
    struct device_layer layer;
    struct device_mlp mlp;
    struct rig_span x, norm, h, ids, weights, rows, b_gate_up, b_down, gate, before;
};

static int n_matrix_of(const struct experts *x)
{
    return x->routed ? x->n_expert : 1;
}

static void experts_init(struct experts *x)
{
    rig_clear(&rig);
    x->n_used = x->routed ? x->n_used : 1;
    size_t pairs = (size_t)x->n_x * (size_t)x->n_used, d = padded(x->d), d_ff = padded(x->d_ff), n = (size_t)n_matrix_of(x);
    x->x = rig_take(&rig, (size_t)x->n_x * d);
    x->before = rig_take(&rig, (size_t)x->n_x * d);
    x->norm = rig_take(&rig, d);
    x->h = rig_take(&rig, pairs * d_ff);
    x->ids = rig_take(&rig, pairs);
    x->weights = rig_take(&rig, pairs);
    x->rows = rig_take(&rig, (size_t)x->n_x * 4);
    x->b_gate_up = rig_take(&rig, 2 * n * (size_t)x->d_ff);
    x->b_down = rig_take(&rig, n * (size_t)x->d);
    x->gate = rig_take(&rig, (size_t)x->n_x);
    randomize(x->x.f, x->n_x, x->d, (uint32_t)d, 1);
    memcpy(x->before.f, x->x.f, (size_t)x->n_x * d * 4);
    randomize(x->b_gate_up.f, 1, (int)(2 * n) * x->d_ff, 0, 0.5f);
    randomize(x->b_down.f, 1, (int)n * x->d, 0, 0.5f);
    randomize(x->weights.f, 1, (int)pairs, 0, 1);
    randomize(x->gate.f, 1, x->n_x, 0, 2);
    for (int t = 0; t < x->n_x; t++) {
        const bool dead = x->n_x > 2 && t == x->n_x - 2;
        x->rows.rows[t][1] = dead ? STEP_PADDING : t;
        for (int k = 0; k < x->n_used; k++)
            x->ids.i[t * x->n_used + k] = dead ? -1 : (t * 7 + k) % x->n_expert;
        if (x->routed && x->n_used > 1 && t % 3 == 1) { /* a row that uses one expert less */
            x->rows.rows[t][3] = (x->n_used - 1) << 1;
            x->ids.i[(t + 1) * x->n_used - 1] = -1;
        }
    }
    x->moe = (struct moe_plan){.n_expert = x->n_expert, .n_used = x->n_used, .d_ff = x->d_ff, .scale = 1};
    x->layer = (struct device_layer){.ffn_norm = x->norm.at};
    x->mlp = (struct device_mlp){.b_gate_up = x->bias ? x->b_gate_up.at : 0, .b_down = x->bias ? x->b_down.at : 0,
                                 .d_ff = (uint32_t)x->d_ff};
    rig.plan.d_model = x->d;
    rig.b.sizes.d = (uint32_t)d;
    rig.b.sizes.expert = padded(x->n_expert);
    rig.b.step.at_rows = x->rows.at;
    rig.b.workspace = (struct workspace){.x = x->x.at, .ids = x->ids.at, .weights = x->weights.at,
                               .used = rig_take(&rig, USED_WORDS).at, .router = rig_take(&rig, (size_t)x->n_x * 32).at};
}

static struct mlp_op op_of(const struct experts *x)
{
    return (struct mlp_op){.m = &x->mlp, .moe = x->routed ? &x->moe : NULL, .layer = &x->layer, .h = x->h.at,
                           .gate = x->gated ? x->gate.at : 0, .clamp = x->clamp};
}

static double weight_of(const struct experts *x, int t, int k)
{
    return x->routed ? (double)x->weights.f[t * x->n_used + k] : x->gated ? 1 / (1 + exp(-(double)x->gate.f[t])) : 1;
}

/* Norm weights that make gates and ups of order 1, whatever the format's scales are. */
static void set_norm(struct experts *x, const struct stack *w)
{
    double square = 0;
    for (size_t i = 0; i < (size_t)w->rows * (size_t)w->cols; i++)
        square += (double)w->at[i] * (double)w->at[i];
    randomize(x->norm.f, 1, x->d, 0, (float)(1 / sqrt(square / w->rows + 1e-30)));
}

static double activation(bool clamp, double g, double u)
{
    if (!clamp)
        return g / (1 + exp(-g)) * u;
    g = g < 7 ? g : 7;
    u = u < -7 ? -7 : u > 7 ? 7 : u;
    return (u + 1) * g / (1 + exp(-1.702 * g));
}

struct hidden { /* of one (row, slot) */
    double v, tolerance;
};

/* h[r] of the pair with this expert. */
static struct hidden hidden_of(const struct experts *x, const struct stack *w, int t, int expert, int r, bool halves)
{
    const float *in = x->before.f + (size_t)t * padded(x->d);
    int gate = expert * x->d_ff + r, up = (n_matrix_of(x) + expert) * x->d_ff + r;
    double factor = rms_factor(in, x->d);
    struct sum g = product(w->at + (size_t)gate * (size_t)x->d, in, x->norm.f, factor, x->d);
    struct sum u = product(w->at + (size_t)up * (size_t)x->d, in, x->norm.f, factor, x->d);
    g.v += x->bias ? (double)x->b_gate_up.f[gate] : 0;
    u.v += x->bias ? (double)x->b_gate_up.f[up] : 0;
    return (struct hidden){activation(x->clamp, g.v, u.v),
                           (1.2 * fabs(u.v) + 1.2) * tolerance(&g, halves) + (fabs(g.v) + 0.3) * tolerance(&u, halves)};
}

static void check_up(struct experts *x)
{
    struct err e = {0};
    struct stack w;
    const int rows[2] = {x->d_ff, x->d_ff};
    stack_init(&w, x->f, n_matrix_of(x), rows, 2, x->d);
    set_norm(x, &w);
    x->mlp.gate_up = w.m;
    x->mlp.gate_up.rows = (uint32_t)x->d_ff;
    struct mlp_op op = op_of(x);
    struct recorder r = rig_begin(&rig, (uint32_t)x->n_x, &e);
    record_mlp_up(&r, &op);
    rig_end(&r);
    for (int pair = 0; pair < x->n_x * x->n_used; pair++)
        for (int i = 0; i < x->d_ff; i++) {
            int expert = x->routed ? x->ids.i[pair] : 0;
            struct hidden h = {0};
            if (expert >= 0)
                h = hidden_of(x, &w, pair / x->n_used, expert, i, false);
            float have = x->h.f[(size_t)pair * padded(x->d_ff) + (size_t)i];
            if (!close_to(have, h.v, h.tolerance))
                fail_msg("%s, %d experts: up of pair %d, row %d is %g, want %g", x->f->name, x->n_expert, pair, i, (double)have,
                         h.v);
        }
    stack_fini(&w);
}

static void check_down(struct experts *x)
{
    struct err e = {0};
    struct stack w;
    stack_init(&w, x->f, n_matrix_of(x), &x->d, 1, x->d_ff);
    x->mlp.down = w.m;
    randomize(x->h.f, x->n_x * x->n_used, x->d_ff, padded(x->d_ff), 1);
    for (int pair = 0; x->routed && pair < x->n_x * x->n_used; pair++)
        if (x->ids.i[pair] < 0) /* of a place that is not used nobody may read */
            memset(x->h.f + (size_t)pair * padded(x->d_ff), 0xff, padded(x->d_ff) * sizeof(float));
    struct mlp_op op = op_of(x);
    struct recorder r = rig_begin(&rig, (uint32_t)x->n_x, &e);
    record_mlp_down(&r, &op);
    rig_end(&r);
    for (int t = 0; t < x->n_x; t++)
        for (int i = 0; i < x->d; i++) {
            size_t at = (size_t)t * padded(x->d) + (size_t)i;
            double want = x->before.f[at], tol = 0;
            for (int k = 0; k < x->n_used && x->rows.rows[t][1] >= 0; k++) {
                if (x->routed && x->ids.i[t * x->n_used + k] < 0)
                    break;
                int pair = t * x->n_used + k, row = (x->routed ? x->ids.i[pair] : 0) * x->d + i;
                struct sum s = product(w.at + (size_t)row * (size_t)x->d_ff, x->h.f + (size_t)pair * padded(x->d_ff), NULL, 1, x->d_ff);
                want += weight_of(x, t, k) * (s.v + (x->bias ? (double)x->b_down.f[row] : 0));
                tol += 2 * tolerance(&s, false);
            }
            if (!close_to(x->x.f[at], want, tol))
                fail_msg("%s, %d experts: down of row %d, %d is %g, want %g", x->f->name, x->n_expert, t, i, (double)x->x.f[at],
                         want);
        }
    stack_fini(&w);
}

static struct experts shape_of(const struct weight_form *f, int i, bool routed)
{
    return (struct experts){.f = f, .n_expert = 1 + i % 9, .n_used = 1 + i % 9 < 3 ? 1 + i % 9 : 3, .n_x = routed ? 5 : 1 + i % 4,
                            .clamp = i % 2, .bias = i % 3 != 1, .routed = routed, .gated = i % 4 < 2};
}

static void test_experts(void **state)
{
    const struct weight_form *f = *state;
    for (int routed = 0; routed < 2; routed++) {
        struct experts up = shape_of(f, (int)(f - weight_forms) + 3 * routed, routed), down = up;
        up.d = cols_of(f, 2);
        up.d_ff = 37;
        experts_init(&up);
        check_up(&up);
        down.d = 45;
        down.d_ff = cols_of(f, 2);
        experts_init(&down);
        check_down(&down);
    }
}

/* --- experts of many rows: sort, up, down, sum --- */

static void wide_memory(const struct experts *x)
{
    size_t pairs = (size_t)x->n_x * (size_t)x->n_used;
    struct workspace *w = &rig.b.workspace;
    w->x_hi = rig_take(&rig, (size_t)x->n_x * padded(x->d) / 2).at;
    w->x_lo = rig_take(&rig, (size_t)x->n_x * padded(x->d) / 2).at;
    struct rig_span parts = rig_take(&rig, pairs * (size_t)x->d);
    memset(parts.f, 0xff, pairs * (size_t)x->d * sizeof(float)); /* nobody may read what nobody wrote */
    w->parts_down = parts.at;
    w->sorted = rig_take(&rig, pairs).at;
    w->tiles = rig_take(&rig, ((size_t)x->n_expert + pairs / 16 + 1) * 4).at;
    w->n_tiles = rig_take(&rig, 4).at;
}

static void wide_run(struct experts *x)
{
    struct err e = {0};
    struct mlp_op op = op_of(x);
    struct recorder r = rig_begin(&rig, (uint32_t)x->n_x, &e);
    record_cast_f16(&r, &(struct cast_f16_op){.x = x->x.at, .norm = x->norm.at, .x_stride = padded(x->d), .n_chunk = padded(x->d) / 32,
                                          .n_x = (uint32_t)x->n_x, .eps = 1e-6f});
    record_barrier(&r);
    record_gemm_mlp(&r, &op);
    rig_end(&r);
}

/* Row t, column i of what the experts add, from the halves h; the square of its rounding's size. */
static struct sum wide_sum(const struct experts *x, const struct stack *down, const struct hidden *h, int t, int i)
{
    struct sum total = {0};
    for (int k = 0; k < x->n_used && (!x->routed || x->ids.i[t * x->n_used + k] >= 0); k++) {
        int pair = t * x->n_used + k, row = (x->routed ? x->ids.i[pair] : 0) * x->d + i;
        const float *w = down->at + (size_t)row * (size_t)x->d_ff;
        const struct hidden *in = h + (size_t)pair * (size_t)x->d_ff;
        double weight = weight_of(x, t, k), v = x->bias ? (double)x->b_down.f[row] : 0;
        for (int j = 0; j < x->d_ff; j++) {
            double sigma = in[j].tolerance + HALF_SIGMAS * HALF_ROUNDING * 1.5 * fabs(in[j].v);
            v += (double)w[j] * in[j].v;
            total.magnitude += fabs(weight * (double)w[j] * in[j].v);
            total.square += weight * weight * (double)w[j] * (double)w[j] * sigma * sigma;
        }
        total.v += weight * v;
    }
    return total;
}

static void check_wide(struct experts *x)
{
    struct stack gate_up, down;
    struct heap first;
    const int rows[2] = {x->d_ff, x->d_ff};
    experts_init(x);
    wide_memory(x);
    stack_init(&gate_up, x->f, n_matrix_of(x), rows, 2, x->d);
    first = rig.weights; /* both stacks stay on the device */
    rig.weights = (struct heap){0};
    stack_init(&down, x->f, n_matrix_of(x), &x->d, 1, x->d_ff);
    set_norm(x, &gate_up);
    x->mlp.gate_up = gate_up.m;
    x->mlp.gate_up.rows = (uint32_t)x->d_ff;
    x->mlp.down = down.m;
    wide_run(x);
    heap_fini(&first, &rig.b.gpu);
    struct hidden *h = calloc((size_t)(x->n_x * x->n_used) * (size_t)x->d_ff, sizeof *h);
    for (int pair = 0; pair < x->n_x * x->n_used; pair++)
        for (int i = 0; i < x->d_ff && (!x->routed || x->ids.i[pair] >= 0); i++)
            h[pair * x->d_ff + i] = hidden_of(x, &gate_up, pair / x->n_used, x->routed ? x->ids.i[pair] : 0, i, true);
    for (int t = 0; t < x->n_x; t++)
        for (int i = 0; i < x->d; i++) {
            size_t at = (size_t)t * padded(x->d) + (size_t)i;
            struct sum s = {0};
            if (x->rows.rows[t][1] >= 0)
                s = wide_sum(x, &down, h, t, i);
            double want = s.v + (double)x->before.f[at], tol = 2 * F32_TOLERANCE * (s.magnitude + 1) + sqrt(s.square);
            if (!close_to(x->x.f[at], want, tol))
                fail_msg("%s, %d experts, %d rows of x: row %d, %d is %g, want %g", x->f->name, x->n_expert, x->n_x, t, i,
                         (double)x->x.f[at], want);
        }
    free(h);
    stack_fini(&gate_up);
    stack_fini(&down);
}

static void check_wide_experts(const struct weight_form *f)
{
    static const int n_x[] = {9, 33, 70};
    for (int i = 0; i < 3; i++) {
        if (!takes(f, i, 3))
            continue;
        struct experts x = shape_of(f, (int)(f - weight_forms) + i, i < 2);
        x.n_x = n_x[i];
        x.d = cols_of(f, 2);
        x.d_ff = f->cols_step > 1 ? f->cols_step : 70;
        check_wide(&x);
    }
}

static void test_wide_experts(void **state)
{
    both_ways(check_wide_experts, *state);
}

/* Logits that are no numbers, as a damaged model makes them: whatever is chosen, there is such an expert, and whoever takes
 * ids for indices stays inside. */
static void test_route_of_no_numbers(void **state)
{
    enum { ROWS = 4, EXPERTS = 24, USED = 4, STRIDE = 32 };
    struct device_layer layer = {0};
    struct err e = {0};
    for (int score = 0; score <= ROUTER_SIGMOID; score++)
        for (int groups = 1; groups <= 4; groups += 3) {
            rig_clear(&rig);
            struct moe_plan m = {.n_expert = EXPERTS, .n_used = USED, .score = (enum router_score)score, .normalize = true, .scale = 1,
                                 .n_group = groups, .n_group_used = groups > 1 ? 2 : 0};
            struct rig_span logits = rig_take(&rig, ROWS * STRIDE), rows = rig_take(&rig, ROWS * 4), ids = rig_take(&rig, ROWS * USED);
            struct rig_span weights = rig_take(&rig, ROWS * USED), used = rig_take(&rig, USED_WORDS);
            for (int i = 0; i < ROWS * EXPERTS; i++) { /* row 0 is sound, row 1 has one such expert, the others have no number */
                const int t = i / EXPERTS, x = i % EXPERTS;
                logits.f[t * STRIDE + x] = t > 1 || (t == 1 && x == 5) ? NAN : (float)x / 8;
            }
            for (int i = 0; i < ROWS * USED; i++)
                ids.i[i] = INT32_MIN;
            rig.b.sizes.expert = STRIDE;
            rig.b.step.at_rows = rows.at;
            rig.b.workspace = (struct workspace){.router = logits.at, .ids = ids.at, .weights = weights.at, .used = used.at};
            struct recorder c = rig_begin(&rig, ROWS, &e);
            record_route(&c, &m, &layer, 0);
            rig_end(&c);
            for (int k = 0; k < USED; k++)
                assert_int_equal(ids.i[k], EXPERTS - 1 - k);
            for (int i = 0; i < ROWS * USED; i++) {
                assert_in_range(ids.i[i], 0, EXPERTS - 1);
                if (groups == 1 && i >= 2 * USED && i % USED) /* all share the first rank: the other places are as they begin */
                    assert_int_equal(ids.i[i], i % USED);
            }
            assert_int_equal(used.u[0] >> EXPERTS, 0);
            for (int i = 1; i < USED_WORDS; i++)
                assert_int_equal(used.u[i], 0);
        }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *what;
        CMUnitTestFunction run;
    } checks[] = {{"linear", test_linear},   {"a changed byte is seen", test_a_changed_byte_is_seen},
                  {"embed", test_embed},     {"experts", test_experts},
                  {"wide", test_wide_linear}, {"wide experts", test_wide_experts}};
    enum { N_CHECKS = sizeof checks / sizeof *checks };
    struct err e = {0};
    int n = 0;
    if (!rig_open(&rig, &e)) {
        fprintf(stderr, "skipped: %s\n", e.text);
        return 77;
    }
    struct CMUnitTest *tests = calloc((size_t)n_weight_forms * N_CHECKS + 1, sizeof *tests);
    char(*names)[64] = calloc((size_t)n_weight_forms * N_CHECKS, sizeof *names);
    for (int f = 0; f < n_weight_forms; f++)
        for (int i = 0; i < N_CHECKS; i++, n++) {
            snprintf(names[n], sizeof names[n], "%s: %s", weight_forms[f].name, checks[i].what);
            tests[n] = (struct CMUnitTest){names[n], checks[i].run, NULL, NULL, (void *)&weight_forms[f]};
        }
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_route_of_no_numbers);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]); /* "q4_0: wide*" */
    int failed = _cmocka_run_group_tests("kernels", tests, (size_t)n, NULL, NULL);
    rig_close(&rig);
    free(tests);
    free(names);
    return failed;
}
