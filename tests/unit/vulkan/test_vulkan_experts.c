/* The kernels of experts against weight_row_f32, for every weight format: few rows and many. */
#include "engine/vulkan/ops/dispatch.h"
#include "tests/unit/vulkan/vulkan_kernel_rig.h"

/* --- experts --- */

struct experts {
    const struct weight_form *f;
    int n_expert, n_used, n_x, d, d_ff;
    bool clamp, bias, routed, gated; /* gated: not routed, weight from a logit */
    struct moe_plan moe;
    struct device_layer layer;
    struct device_mlp mlp;
    struct rig_span x, norm, h, ids, weights, rows, b_gate_up, b_down, gate, before;
    bool lists;  /* many rows: each expert has a list of its pairs */
    bool units;  /* many rows: x comes in the order of record_gemm_units */
    bool shared; /* many rows: the first expert's matrices are also a shared one's */
    bool split;  /* all rows use expert 0: the others lie nowhere */
    struct rig_span halves, sorted, counts;
};

static int n_matrix_of(const struct experts *x)
{
    return x->routed && !x->split ? x->n_expert : 1;
}

static void experts_init(struct experts *x)
{
    rig_clear(&rig);
    x->n_used = x->routed ? x->n_used : 1;
    size_t pairs = (size_t)x->n_x * (size_t)x->n_used, d = padded(x->d), d_ff = padded(x->d_ff),
           n = (size_t)n_matrix_of(x);
    x->x = rig_take(&rig, (size_t)x->n_x * d);
    x->before = rig_take(&rig, (size_t)x->n_x * d);
    x->norm = rig_take(&rig, d);
    x->h = rig_take(&rig, pairs * d_ff);
    x->ids = rig_take(&rig, pairs);
    x->weights = rig_take(&rig, pairs);
    x->rows = rig_take(&rig, (size_t)x->n_x * 4);
    x->b_gate_up = rig_take(&rig, 2 * n * (size_t)x->d_ff);
    x->b_down = rig_take(&rig, n * (size_t)x->d);
    x->gate = rig_take(&rig, (size_t)x->n_x * padded(x->n_expert));
    randomize(x->x.f, x->n_x, x->d, (uint32_t)d, 1);
    memcpy(x->before.f, x->x.f, (size_t)x->n_x * d * 4);
    randomize(x->b_gate_up.f, 1, (int)(2 * n) * x->d_ff, 0, 0.5f);
    randomize(x->b_down.f, 1, (int)n * x->d, 0, 0.5f);
    randomize(x->weights.f, 1, (int)pairs, 0, 1);
    randomize(x->gate.f, x->n_x, 1, padded(x->n_expert), 2);
    for (int t = 0; t < x->n_x; t++) {
        const bool dead = x->n_x > 2 && t == x->n_x - 2;
        x->rows.rows[t][1] = dead ? STEP_PADDING : t;
        for (int k = 0; k < x->n_used; k++)
            x->ids.i[t * x->n_used + k] = dead ? -1 : x->split ? 0 : (t * 7 + k) % x->n_expert;
        if (x->routed && x->n_used > 1 && t % 3 == 1) { /* a row that uses one expert less */
            x->rows.rows[t][3] = (x->n_used - 1) << 1;
            x->ids.i[(t + 1) * x->n_used - 1] = -1;
        }
    }
    x->moe = (struct moe_plan){
        .n_expert = x->n_expert, .n_used = x->n_used, .d_ff = x->d_ff, .scale = 1};
    x->layer = (struct device_layer){.ffn_norm = x->norm.at};
    x->mlp = (struct device_mlp){.b_gate_up = x->bias ? x->b_gate_up.at : 0,
                                 .b_down = x->bias ? x->b_down.at : 0,
                                 .d_ff = (uint32_t)x->d_ff};
    rig.plan.d_model = x->d;
    rig.b.sizes.d = (uint32_t)d;
    rig.b.sizes.expert = padded(x->n_expert);
    rig.b.step.at_rows = x->rows.at;
    rig.b.workspace = (struct workspace){.x = x->x.at,
                                         .ids = x->ids.at,
                                         .weights = x->weights.at,
                                         .used = rig_take(&rig, USED_WORDS).at,
                                         .router = rig_take(&rig, (size_t)x->n_x * 32).at};
}

static struct mlp_op op_of(const struct experts *x)
{
    return (struct mlp_op){.m = &x->mlp,
                           .moe = x->routed ? &x->moe : NULL,
                           .layer = &x->layer,
                           .h = x->h.at,
                           .gate = x->gated ? x->gate.at : 0,
                           .clamp = x->clamp};
}

static double gate_of(const struct experts *x, int t)
{
    return x->gated ? 1 / (1 + exp(-(double)x->gate.f[(size_t)t * padded(x->n_expert)])) : 1;
}

static double weight_of(const struct experts *x, int t, int k)
{
    return x->routed ? (double)x->weights.f[t * x->n_used + k] : gate_of(x, t);
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
static struct hidden hidden_of(const struct experts *x, const struct stack *w, int t, int expert,
                               int r, bool halves)
{
    const float *in = x->before.f + (size_t)t * padded(x->d);
    int gate = expert * x->d_ff + r, up = (n_matrix_of(x) + expert) * x->d_ff + r;
    double factor = rms_factor(in, x->d);
    struct sum g = product(w->at + (size_t)gate * (size_t)x->d, in, x->norm.f, factor, x->d);
    struct sum u = product(w->at + (size_t)up * (size_t)x->d, in, x->norm.f, factor, x->d);
    g.v += x->bias ? (double)x->b_gate_up.f[gate] : 0;
    u.v += x->bias ? (double)x->b_gate_up.f[up] : 0;
    return (struct hidden){activation(x->clamp, g.v, u.v),
                           (1.2 * fabs(u.v) + 1.2) * tolerance(&g, halves) +
                               (fabs(g.v) + 0.3) * tolerance(&u, halves)};
}

static void check_up(struct experts *x)
{
    struct err e = {0};
    struct stack w;
    experts_init(x);
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
                fail_msg("%s, %d experts: up of pair %d, row %d is %g, want %g", x->f->name,
                         x->n_expert, pair, i, (double)have, h.v);
        }
    stack_fini(&w);
}

static void check_down(struct experts *x)
{
    struct err e = {0};
    struct stack w;
    experts_init(x);
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
                struct sum s = product(w.at + (size_t)row * (size_t)x->d_ff,
                                       x->h.f + (size_t)pair * padded(x->d_ff), NULL, 1, x->d_ff);
                want += weight_of(x, t, k) * (s.v + (x->bias ? (double)x->b_down.f[row] : 0));
                tol += 2 * tolerance(&s, false);
            }
            if (!close_to(x->x.f[at], want, tol))
                fail_msg("%s, %d experts: down of row %d, %d is %g, want %g", x->f->name,
                         x->n_expert, t, i, (double)x->x.f[at], want);
        }
    stack_fini(&w);
}

static struct experts shape_of(const struct weight_form *f, int i, bool routed)
{
    return (struct experts){.f = f,
                            .n_expert = 1 + i % 9,
                            .n_used = 1 + i % 9 < 3 ? 1 + i % 9 : 3,
                            .n_x = routed ? 5 : 1 + i % 4,
                            .clamp = i % 2,
                            .bias = i % 3 != 1,
                            .routed = routed,
                            .gated = i % 4 < 2};
}

static void test_experts(void **state)
{
    const struct weight_form *f = *state;
    const int turn = turn_of(f);
    for (int routed = 0; routed < 2; routed++) {
        struct experts up = shape_of(f, (int)(f - weight_forms) + 3 * routed, routed), down = up;
        up.d = down.d_ff = cols_of(f, 2);
        up.d_ff = 37, down.d = 45;
        if (turn < 0 || turn / 2 % 2 == routed)
            check_up(&up);
        if (turn < 0 || turn / 2 % 2 != routed)
            check_down(&down);
    }
}

/* --- experts of many rows: sort, up, down, sum --- */

static void wide_memory(struct experts *x)
{
    size_t pairs = (size_t)x->n_x * (size_t)x->n_used;
    struct workspace *w = &rig.b.workspace;
    x->halves = rig_take(&rig, (size_t)x->n_x * padded(x->d) / 2);
    w->x_hi = x->halves.at;
    w->x_lo = rig_take(&rig, (size_t)x->n_x * padded(x->d) / 2).at;
    const size_t n_parts = (pairs + (x->shared ? (size_t)x->n_x : 0)) * (size_t)x->d;
    struct rig_span parts = rig_take(&rig, n_parts);
    memset(parts.f, 0xff, n_parts * sizeof(float)); /* nobody may read what nobody wrote */
    w->parts_down = parts.at;
    const size_t places = record_list_rows((uint32_t)x->n_x);
    x->sorted = rig_take(&rig, x->lists ? (size_t)x->n_expert * places : pairs);
    x->counts = rig_take(&rig, (size_t)x->n_expert);
    w->sorted = x->sorted.at;
    w->counts = x->counts.at;
    for (size_t i = 0; i < pairs && x->lists; i++) {
        const int expert = x->ids.i[i];
        if (expert >= 0)
            x->sorted.u[(size_t)expert * places + x->counts.u[expert]++] = (uint32_t)i;
    }
    w->tiles = rig_take(&rig, ((size_t)x->n_expert + pairs / 16 + 1) * 4).at;
    w->n_tiles = rig_take(&rig, 4).at;
}

static void wide_run(struct experts *x)
{
    struct err e = {0};
    struct mlp_op op = op_of(x);
    op.lists = x->lists, op.units = x->units;
    op.next_norm = x->norm.at;
    struct mlp_op shared = op;
    shared.moe = NULL;
    shared.lists = shared.units = false;
    shared.h = rig_take(&rig, (size_t)x->n_x * padded(x->d_ff)).at;
    op.shared = x->shared ? &shared : NULL;
    struct recorder r = rig_begin(&rig, (uint32_t)x->n_x, &e);
    record_cast_f16(&r, &(struct cast_f16_op){.x = x->x.at,
                                              .norm = x->norm.at,
                                              .x_stride = padded(x->d),
                                              .n_chunk = padded(x->d) / 32,
                                              .n_x = (uint32_t)x->n_x,
                                              .eps = 1e-6f});
    rig_end(&r);
    if (x->units)
        to_units_order(x->halves.u, x->n_x, (int)padded(x->d));
    r = rig_begin(&rig, (uint32_t)x->n_x, &e);
    record_gemm_mlp(&r, &op);
    rig_end(&r);
}

/* Column i of what an expert adds to a row of this weight, from the halves `in`; the square of its
 * rounding's size. */
static void wide_add(const struct experts *x, const struct stack *down, const struct hidden *in,
                     int expert, int i, double weight, struct sum *total)
{
    const int row = expert * x->d + i;
    const float *w = down->at + (size_t)row * (size_t)x->d_ff;
    double v = x->bias ? (double)x->b_down.f[row] : 0;
    for (int j = 0; j < x->d_ff; j++) {
        double sigma = in[j].tolerance + HALF_SIGMAS * HALF_ROUNDING * 1.5 * fabs(in[j].v);
        v += (double)w[j] * in[j].v;
        total->magnitude += fabs(weight * (double)w[j] * in[j].v);
        total->square += weight * weight * (double)w[j] * (double)w[j] * sigma * sigma;
    }
    total->v += weight * v;
}

/* Row t, column i of what all its experts add; h: of the pairs, then of the shared expert. */
static struct sum wide_sum(const struct experts *x, const struct stack *down,
                           const struct hidden *h, int t, int i)
{
    struct sum total = {0};
    for (int k = 0; k < x->n_used && (!x->routed || x->ids.i[t * x->n_used + k] >= 0); k++) {
        const int pair = t * x->n_used + k;
        wide_add(x, down, h + (size_t)pair * (size_t)x->d_ff, x->routed ? x->ids.i[pair] : 0, i,
                 weight_of(x, t, k), &total);
    }
    if (x->shared)
        wide_add(x, down, h + (size_t)(x->n_x * x->n_used + t) * (size_t)x->d_ff, 0, i,
                 gate_of(x, t), &total);
    return total;
}

/* The sum also leaves the next layer's input in halves, and the lists empty. */
static void check_next(const struct experts *x)
{
    for (int t = 0; t < x->n_x; t++) {
        const float *row = x->x.f + (size_t)t * padded(x->d);
        const double factor = rms_factor(row, x->d);
        for (int i = 0; i < x->d && x->rows.rows[t][1] >= 0; i++) {
            const size_t at = (size_t)t * padded(x->d) + (size_t)i;
            const double want = (double)row[i] * (double)x->norm.f[i] * factor,
                         have = (double)value_of_half(x->halves.u[at / 2] >> (at % 2 * 16));
            if (!close_to(have, want, 1e-3 * fabs(want) + 1e-6))
                fail_msg("%s: half %d of row %d is %g, want %g", x->f->name, i, t, have, want);
        }
    }
    for (int i = 0; i < x->n_expert && x->lists; i++)
        assert_int_equal(x->counts.u[i], 0);
}

/* As of experts of which only those in use were brought to the device. */
static void split_table(struct experts *x)
{
    enum { WORDS = 2 * sizeof(struct push_planes) / 4 };
    const struct rig_span table = rig_take(&rig, (size_t)x->n_expert * WORDS);
    const struct push_planes first[2] = {dispatch_planes(&x->mlp.gate_up),
                                         dispatch_planes(&x->mlp.down)};
    memcpy(table.u, first, sizeof first);
    x->layer.split_experts.table = table.at;
}

static void check_wide(struct experts *x)
{
    struct stack gate_up, down;
    struct heap first;
    const int rows[2] = {x->d_ff, x->d_ff};
    x->gated = x->gated && x->shared;
    experts_init(x);
    wide_memory(x);
    rig.keeps_codes = x->split;
    stack_init(&gate_up, x->f, n_matrix_of(x), rows, 2, x->d);
    first = rig.weights; /* both stacks stay on the device */
    rig.weights = (struct heap){0};
    stack_init(&down, x->f, n_matrix_of(x), &x->d, 1, x->d_ff);
    set_norm(x, &gate_up);
    x->mlp.gate_up = gate_up.m;
    x->mlp.gate_up.rows = (uint32_t)x->d_ff;
    x->mlp.down = down.m;
    rig.keeps_codes = false;
    if (x->split)
        split_table(x);
    wide_run(x);
    heap_fini(&first, &rig.b.gpu);
    const int pairs = x->n_x * x->n_used;
    struct hidden *h = calloc((size_t)(pairs + x->n_x) * (size_t)x->d_ff, sizeof *h);
    for (int pair = 0; pair < pairs; pair++)
        for (int i = 0; i < x->d_ff && (!x->routed || x->ids.i[pair] >= 0); i++)
            h[pair * x->d_ff + i] =
                hidden_of(x, &gate_up, pair / x->n_used, x->routed ? x->ids.i[pair] : 0, i, true);
    for (int i = 0; i < x->n_x * x->d_ff && x->shared; i++)
        h[pairs * x->d_ff + i] = hidden_of(x, &gate_up, i / x->d_ff, 0, i % x->d_ff, true);
    for (int t = 0; t < x->n_x; t++)
        for (int i = 0; i < x->d; i++) {
            size_t at = (size_t)t * padded(x->d) + (size_t)i;
            struct sum s = {0};
            if (x->rows.rows[t][1] >= 0)
                s = wide_sum(x, &down, h, t, i);
            double want = s.v + (double)x->before.f[at],
                   tol = 2 * F32_TOLERANCE * (s.magnitude + 1) + sqrt(s.square);
            if (!close_to(x->x.f[at], want, tol))
                fail_msg("%s, %d experts, %d rows of x: row %d, %d is %g, want %g", x->f->name,
                         x->n_expert, x->n_x, t, i, (double)x->x.f[at], want);
        }
    check_next(x);
    free(h);
    stack_fini(&gate_up);
    stack_fini(&down);
}

static void check_wide_case(const struct weight_form *f, int i, int n_x, int steps, bool lists)
{
    struct experts x = shape_of(f, (int)(f - weight_forms) + i, i < 2 || lists);
    x.n_x = n_x;
    x.lists = lists;
    x.shared = x.routed;
    x.d = cols_of(f, steps);
    x.d_ff = f->cols_step == 32 && lists ? 384 : f->cols_step > 1 ? f->cols_step : 70;
    check_wide(&x);
}

static void check_wide_experts(const struct weight_form *f)
{
    static const int n_x[] = {9, 33, 70};
    const int turn = turn_of(f); /* test_vulkan_kernels.c has each form's tiles */
    for (int i = 0; i < 3; i++)  /* 33 rows: an expert may have more than one tile of them */
        if (turn < 0 ? takes(f, i, 3) : turn % 3 == 1 && turn / 3 % 3 == i)
            check_wide_case(f, i, n_x[i], 2, i == 1);
}

static void test_wide_experts(void **state)
{
    both_ways(check_wide_experts, *state);
}

/* Tiles of 128 and 64 rows, of 64 and 32, both lists of each not empty; one expert for all rows. */
static void test_whole_tiles(void **state)
{
    static const struct {
        int n_expert, n_used, n_x;
        bool routed;
    } cases[] = {{2, 1, 290, true}, {4, 2, 70, true}, {1, 1, 70, false}};
    const struct weight_form *f = *state;
    for (int i = 0; i < 3 && whole_tiles_begin(f); i++) {
        if (!takes_whole(f, i))
            continue;
        struct experts x = shape_of(f, (int)(f - weight_forms) + i, cases[i].routed);
        x.n_expert = cases[i].n_expert;
        x.n_used = cases[i].n_used;
        x.n_x = cases[i].n_x;
        x.d = f->cols_step > 1 ? 2 * f->cols_step : 160;
        x.d_ff = f->cols_step > 96 ? f->cols_step : f->cols_step > 32 ? 64 : 96;
        check_wide(&x);
    }
    whole_tiles_end();
}

/* One expert of three is on the device, the others have no address: nobody may read there. */
static void check_few_split(const struct weight_form *f, bool lists)
{
    struct experts x = shape_of(f, (int)(f - weight_forms), true);
    x.n_expert = 3;
    x.n_used = 1;
    x.n_x = lists ? 9 : 3;
    x.lists = lists;
    x.split = true;
    x.d = cols_of(f, 2);
    x.d_ff = f->cols_step > 1 ? f->cols_step : 70;
    check_wide(&x);
}

/* An expert with no pair, with fewer than eight, with more; scales of one, four and two steps in a
 * load. At last without lists: two rows share two experts. */
static void test_few_rows(void **state)
{
    static const int n_x[] = {3, 33, 20}, steps[] = {20, 16, 8};
    const struct weight_form *f = *state;
    for (int i = 0; i < 3 && few_rows_begin(f); i++) {
        if (!takes_whole(f, i))
            continue;
        check_wide_case(f, i, n_x[i], steps[i], true);
        struct experts x = shape_of(f, (int)(f - weight_forms) + i, true);
        x.n_expert = 24, x.n_used = 3, x.n_x = 8;
        x.units = !strncmp(f->name, "mxfp4", 5);
        x.d = cols_of(f, x.units ? 8 : 2);
        x.d_ff = x.units ? 4 * f->cols_step : f->cols_step > 1 ? f->cols_step : 70;
        check_wide(&x);
        check_few_split(f, i != 1);
    }
    few_rows_end();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *what;
        CMUnitTestFunction run;
    } checks[] = {{"experts", test_experts},
                  {"wide experts", test_wide_experts},
                  {"whole tiles", test_whole_tiles},
                  {"few rows", test_few_rows}};
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
    int failed = _cmocka_run_group_tests("expert kernels", tests, (size_t)n, NULL, NULL);
    rig_close(&rig);
    free(tests);
    free(names);
    return failed;
}
