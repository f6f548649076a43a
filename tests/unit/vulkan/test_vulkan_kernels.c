/* Every Vulkan kernel that multiplies with packed weights against weight_row_f32, for every weight
 * format: rows of W and of x that fill no tile, one block of columns and several, 1 to 9 experts,
 * unaligned files, stacks of several tensors; the products of many rows with and, where the device
 * has them, with matrix units. The sums of the reference are in double.
 *
 * Tolerances: with f32 activations 2e-6 of the sum of magnitudes; of many rows 8 standard
 * deviations of what rounding both sides to halves gives, or f32's where both halves of each number
 * are carried. That they are tight enough is itself tested: of the bytes of a packed row, nine in
 * ten must be seen when they change. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/vulkan/vulkan_kernel_rig.h"
#include "tests/unit/vulkan/vulkan_rig.h"

/* Both sides as two halves each: the product of the two rests is left out, and a small rest is
 * rounded to a multiple of 2^-35 at most. */
static double split_tolerance(const struct sum *s)
{
    return F32_TOLERANCE * (s->magnitude + fabs(s->v) + 1) + 0x1p-21 * s->magnitude +
           0x1p-34 * s->sides;
}

/* --- y (+)= W norm(x) + bias --- */

struct linear_case {
    int rows[MAX_PARTS], n_parts;
    int steps; /* of the format's columns */
    int n_x;
    bool norm, bias, add, gather;
    bool whole;         /* by matmul_wide, which writes four rows at once */
    uint32_t rows_each; /* of W for a subgroup */
};

static const struct linear_case linear_cases[] = {
    {.rows = {1}, .n_parts = 1, .steps = 1, .n_x = 1, .rows_each = 1},
    {.rows = {10, 20, 7},
     .n_parts = 3,
     .steps = 3,
     .n_x = 33,
     .norm = true,
     .bias = true,
     .rows_each = 1},
    {.rows = {70}, .n_parts = 1, .steps = 2, .n_x = 3, .add = true, .gather = true, .rows_each = 1},
    {.rows = {1027},
     .n_parts = 1,
     .steps = 1,
     .n_x = 1,
     .norm = true,
     .bias = true,
     .rows_each = 2},
};

static const struct linear_case wide_cases[] = {
    {.rows = {10, 20, 7}, .n_parts = 3, .steps = 3, .n_x = 9, .bias = true, .norm = true},
    {.rows = {130}, .n_parts = 1, .steps = 1, .n_x = 33, .add = true},
    {.rows = {67}, .n_parts = 1, .steps = 2, .n_x = 75, .norm = true, .gather = true},
    /* enough for whole tiles, which the others are too small for */
    {.rows = {8230}, .n_parts = 1, .steps = 1, .n_x = 70, .bias = true},
};

static const struct linear_case whole_cases[] = {
    {.rows = {136},
     .n_parts = 1,
     .steps = 3,
     .n_x = 150,
     .bias = true,
     .norm = true,
     .whole = true},
    {.rows = {64, 68}, .n_parts = 2, .steps = 2, .n_x = 40, .add = true, .whole = true},
    {.rows = {260}, .n_parts = 1, .steps = 1, .n_x = 70, .norm = true, .whole = true},
};

/* 8, 16 and 32 rows of X at a time; columns in one slice, in two, and in two in several
 * turns. */
static const struct linear_case few_cases[] = {
    {.rows = {10, 20, 7}, .n_parts = 3, .steps = 20, .n_x = 7, .bias = true, .norm = true},
    {.rows = {67}, .n_parts = 1, .steps = 2, .n_x = 13, .add = true},
    {.rows = {130}, .n_parts = 1, .steps = 3, .n_x = 32, .norm = true},
};

struct linear { /* a case with its data */
    const struct linear_case *c;
    struct stack w;
    struct rig_span x, norm, y, before, bias, gather;
    uint32_t x_stride, y_stride;
    bool wide, split;
};

static void linear_init(struct linear *l, const struct linear_case *c, const struct weight_form *f)
{
    int cols = cols_of(f, c->steps), n_in = c->n_x + 2;
    *l = (struct linear){.c = c};
    rig_clear(&rig);
    stack_init(&l->w, f, 1, c->rows, c->n_parts, cols);
    l->x_stride = padded(cols);
    l->y_stride = (uint32_t)l->w.rows + (c->whole ? 8 : 5);
    l->x = rig_take(&rig, (size_t)n_in * l->x_stride);
    l->norm = rig_take(&rig, l->x_stride);
    l->y = rig_take(&rig, (size_t)c->n_x * l->y_stride);
    l->before = rig_take(&rig, (size_t)c->n_x * l->y_stride);
    l->bias = rig_take(&rig, (size_t)l->w.rows);
    l->gather = rig_take(&rig, (size_t)c->n_x);
    randomize(l->x.f, n_in, cols, l->x_stride, 1);
    randomize(l->norm.f, 1, cols, 0, 1);
    randomize(l->bias.f, 1, l->w.rows, 0, 1);
    randomize(l->y.f, c->n_x, (int)l->y_stride, l->y_stride, 1);
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
    struct linear_op op = {.label = "test",
                           .w = &l->w.m,
                           .x = l->x.at,
                           .norm = c->norm ? l->norm.at : 0,
                           .y = l->y.at,
                           .bias = c->bias ? l->bias.at : 0,
                           .gather = c->gather ? l->gather.at : 0,
                           .x_stride = l->x_stride,
                           .y_stride = l->y_stride,
                           .n_x = (uint32_t)c->n_x,
                           .eps = 1e-6f,
                           .add = c->add};
    rig.b.tuning.linear_rows = c->rows_each;
    struct recorder r = rig_begin(&rig, (uint32_t)c->n_x, &e);
    if (l->wide) {
        record_cast_f16(&r, &(struct cast_f16_op){.x = op.x,
                                                  .norm = op.norm,
                                                  .gather = op.gather,
                                                  .x_stride = op.x_stride,
                                                  .n_chunk = op.x_stride / 32,
                                                  .n_x = op.n_x,
                                                  .eps = op.eps,
                                                  .split = l->split});
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
                s = product(l->w.at + (size_t)i * (size_t)l->w.cols, x, c->norm ? l->norm.f : NULL,
                            factor, l->w.cols);
                s.v +=
                    (c->bias ? (double)l->bias.f[i] : 0) + (c->add ? (double)l->before.f[at] : 0);
            }
            double allowed = i >= l->w.rows ? 0
                             : l->split     ? split_tolerance(&s)
                                            : tolerance(&s, l->wide);
            if (!close_to(l->y.f[at], s.v, allowed)) {
                print_message("want %.9g, have %.9g, allowed %.3g\n", s.v, (double)l->y.f[at],
                              allowed);
                return (int)at;
            }
        }
    }
    return -1;
}

static void linear_check(const struct linear_case *c, const struct weight_form *f, bool wide,
                         bool split)
{
    struct linear l;
    linear_init(&l, c, f);
    l.wide = wide;
    l.split = split;
    linear_run(&l);
    int wrong = linear_wrong(&l);
    if (wrong >= 0)
        fail_msg("%s, %d x %d, %d rows of x%s: row %d of x, row %d is wrong: %g", f->name, l.w.rows,
                 l.w.cols, c->n_x,
                 !wide   ? ""
                 : split ? ", two halves"
                         : ", halves",
                 wrong / (int)l.y_stride, wrong % (int)l.y_stride, (double)l.y.f[wrong]);
    stack_fini(&l.w);
}

static void test_linear(void **state)
{
    const int turn = turn_of(*state);
    for (size_t i = 0; i < sizeof linear_cases / sizeof *linear_cases; i++)
        if (turn < 0 || i < 2 || (int)i == 2 + turn % 2)
            linear_check(&linear_cases[i], *state, false, false);
}

static void check_wide_linear(const struct weight_form *f)
{
    enum { N = sizeof wide_cases / sizeof *wide_cases };
    const int turn = turn_of(f);
    for (int i = 0; i < N; i++)
        for (int split = 0; split < 2; split++)
            if (turn < 0 ? takes(f, (i + split) % N, N) : turn % (2 * N) == i + split * N)
                linear_check(&wide_cases[i], f, true, split);
}

static void test_wide_linear(void **state)
{
    both_ways(check_wide_linear, *state);
}

static void test_whole_tiles(void **state)
{
    const struct weight_form *f = *state;
    for (int i = 0; i < 3 && whole_tiles_begin(f); i++)
        if (takes_whole(f, i))
            linear_check(&whole_cases[i], f, true, false);
    whole_tiles_end();
}

static void test_few_rows(void **state)
{
    const struct weight_form *f = *state;
    for (int i = 0; i < 3 && few_rows_begin(f); i++)
        for (int split = 0; split < 2; split++)
            if (takes_whole(f, i + split))
                linear_check(&few_cases[i], f, true, split);
    few_rows_end();
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
        l.w.part[0].data[i] ^=
            is_float ? 0x04 : 0x11; /* a bit of the exponent; a bit of both nibbles */
        expand(w, l.w.at);
        seen += linear_wrong(&l) >= 0;
        l.w.part[0].data[i] ^= is_float ? 0x04 : 0x11;
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
                fail_msg("%s: token %d, column %d is %g, want %g", f->name, tokens[i], c,
                         (double)have, (double)want);
        }
    stack_fini(&w);
}

/* --- down of routed experts with a shared one beside them --- */

enum { SIDE_ROWS = 37, SIDE_USED = 2, SIDE_EXPERTS = 3, SIDE_X = 2, SIDE_GATES = 32 };

struct beside {
    struct stack routed, shared;
    struct heap first;
    struct device_mlp mlp[2];
    struct moe_plan moe;
    struct device_layer layer;
    struct rig_span x, h, h_shared, ids, weights, gates;
};

static void beside_init(struct beside *s, const struct weight_form *f,
                        const struct weight_form *of_shared)
{
    const int rows = SIDE_ROWS;
    *s = (struct beside){.moe = {.n_expert = SIDE_EXPERTS, .n_used = SIDE_USED}};
    rig_clear(&rig);
    stack_init(&s->routed, f, SIDE_EXPERTS, &rows, 1, cols_of(f, 2));
    s->first = rig.weights; /* both stay on the device */
    rig.weights = (struct heap){0};
    stack_init(&s->shared, of_shared, 1, &rows, 1, cols_of(of_shared, 1));
    s->mlp[0].down = s->routed.m;
    s->mlp[0].down.rows = SIDE_ROWS;
    s->mlp[1].down = s->shared.m;
    s->x = rig_take(&rig, SIDE_X * padded(SIDE_ROWS));
    s->h = rig_take(&rig, SIDE_X * SIDE_USED * padded(s->routed.cols));
    s->h_shared = rig_take(&rig, SIDE_X * padded(s->shared.cols));
    s->ids = rig_take(&rig, SIDE_X * SIDE_USED);
    s->weights = rig_take(&rig, SIDE_X * SIDE_USED);
    s->gates = rig_take(&rig, SIDE_X * SIDE_GATES);
    randomize(s->h.f, SIDE_X * SIDE_USED, s->routed.cols, padded(s->routed.cols), 1);
    randomize(s->h_shared.f, SIDE_X, s->shared.cols, padded(s->shared.cols), 1);
    randomize(s->weights.f, 1, SIDE_X * SIDE_USED, 0, 1);
    randomize(s->gates.f, SIDE_X, 1, SIDE_GATES, 2);
    for (int i = 0; i < SIDE_X * SIDE_USED; i++)
        s->ids.i[i] = i % SIDE_EXPERTS;
    rig.b.sizes.d = padded(SIDE_ROWS);
    rig.b.sizes.expert = SIDE_GATES;
    rig.b.step.at_rows = rig_take(&rig, SIDE_X * 4).at;
    rig.b.workspace = (struct workspace){.x = s->x.at, .ids = s->ids.at, .weights = s->weights.at};
}

static void beside_check(const struct weight_form *f, const struct weight_form *of_shared,
                         bool gated)
{
    struct beside s;
    struct err e = {0};
    beside_init(&s, f, of_shared);
    const struct mlp_op shared = {
        .m = &s.mlp[1], .layer = &s.layer, .h = s.h_shared.at, .gate = gated ? s.gates.at : 0};
    const struct mlp_op routed = {
        .m = &s.mlp[0], .moe = &s.moe, .layer = &s.layer, .h = s.h.at, .shared = &shared};
    struct recorder r = rig_begin(&rig, SIDE_X, &e);
    const bool fits = record_mlp_down_beside(&r, &routed, &shared);
    assert_int_equal(fits, !s.shared.m.layout.row_bytes[2] &&
                               s.shared.m.layout.n_chunk <= rig.b.gpu.caps.subgroup);
    if (fits)
        record_mlp_down(&r, &routed);
    rig_end(&r);
    heap_fini(&s.first, &rig.b.gpu);
    for (int t = 0; t < SIDE_X && fits; t++)
        for (int i = 0; i < SIDE_ROWS; i++) {
            struct sum p =
                product(s.shared.at + (size_t)i * (size_t)s.shared.cols,
                        s.h_shared.f + (size_t)t * padded(s.shared.cols), NULL, 1, s.shared.cols);
            double want = p.v * (gated ? 1 / (1 + exp(-(double)s.gates.f[t * SIDE_GATES])) : 1),
                   tol = 2 * tolerance(&p, false);
            for (int k = t * SIDE_USED; k < (t + 1) * SIDE_USED; k++) {
                p = product(s.routed.at +
                                (size_t)(s.ids.i[k] * SIDE_ROWS + i) * (size_t)s.routed.cols,
                            s.h.f + (size_t)k * padded(s.routed.cols), NULL, 1, s.routed.cols);
                want += (double)s.weights.f[k] * p.v;
                tol += 2 * tolerance(&p, false);
            }
            const double have = (double)s.x.f[t * (int)padded(SIDE_ROWS) + i];
            if (!close_to(have, want, tol))
                fail_msg("%s beside %s: row %d, %d is %g, want %g", of_shared->name, f->name, t, i,
                         have, want);
        }
    stack_fini(&s.routed);
    stack_fini(&s.shared);
}

static void test_beside(void **state)
{
    const struct weight_form *f = *state, *q8 = weight_forms;
    while (strcmp(q8->name, "q8_0"))
        q8++;
    const int turn = turn_of(f);
    if (turn < 0 || turn % 2 == 0)
        beside_check(f, f, false);
    if (turn < 0 || turn % 2 == 1)
        beside_check(f, q8, true);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *what;
        CMUnitTestFunction run;
    } checks[] = {{"linear", test_linear},
                  {"a changed byte is seen", test_a_changed_byte_is_seen},
                  {"embed", test_embed},
                  {"wide", test_wide_linear},
                  {"whole tiles", test_whole_tiles},
                  {"few rows", test_few_rows},
                  {"beside", test_beside}};
    enum { N_CHECKS = sizeof checks / sizeof *checks };
    struct err e = {0};
    int n = 0;
    if (!rig_open(&rig, &e)) {
        fprintf(stderr, "skipped: %s\n", e.text);
        return 77;
    }
    struct CMUnitTest *tests = calloc((size_t)n_weight_forms * N_CHECKS, sizeof *tests);
    char(*names)[64] = calloc((size_t)n_weight_forms * N_CHECKS, sizeof *names);
    for (int f = 0; f < n_weight_forms; f++)
        for (int i = 0; i < N_CHECKS; i++, n++) {
            snprintf(names[n], sizeof names[n], "%s: %s", weight_forms[f].name, checks[i].what);
            tests[n] =
                (struct CMUnitTest){names[n], checks[i].run, NULL, NULL, (void *)&weight_forms[f]};
        }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]); /* "q4_0: wide*" */
    int failed = _cmocka_run_group_tests("kernels", tests, (size_t)n, NULL, NULL);
    rig_close(&rig);
    free(tests);
    free(names);
    return failed;
}
