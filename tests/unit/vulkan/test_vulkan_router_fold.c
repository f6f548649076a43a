/* A folded router in steps of several rows: its logits beside products of few rows, and the choice
 * of experts by logits that lack the norm's factor. */
#include "engine/vulkan/ops/record_gemm.h"
#include "engine/vulkan/ops/router_fold.h"
#include "tests/unit/vulkan/vulkan_kernel_rig.h"

enum { EXPERTS = 72, STRIDE = 96, ROWS_MOST = 13 };

struct beside { /* a product of few rows, and the halves of a router beside it */
    struct stack w;
    struct device_matrix of_x, of_halves;
    struct rig_span x, halves, y, logits, first, second;
    uint32_t stride, y_stride;
};

static struct device_matrix f32_matrix(const struct rig_span *s, uint32_t stride)
{
    return (struct device_matrix){
        .plane = {s->at}, .rows = EXPERTS, .n_matrix = 1, .layout = {.n_chunk = stride / 32}};
}

static void beside_init(struct beside *o, const struct weight_form *f)
{
    const int rows = 67, cols = cols_of(f, 3);
    rig_clear(&rig);
    *o = (struct beside){.stride = padded(cols)};
    stack_init(&o->w, f, 1, &rows, 1, cols);
    o->y_stride = (uint32_t)rows + 5;
    o->x = rig_take(&rig, ROWS_MOST * o->stride);
    o->halves = rig_take(&rig, ROWS_MOST * o->stride / 2);
    o->y = rig_take(&rig, ROWS_MOST * o->y_stride);
    o->logits = rig_take(&rig, ROWS_MOST * STRIDE);
    o->first = rig_take(&rig, EXPERTS * o->stride);
    o->second = rig_take(&rig, EXPERTS * o->stride);
    randomize(o->x.f, ROWS_MOST, cols, o->stride, 1);
    randomize(o->first.f, EXPERTS, cols, o->stride, 1);
    randomize(o->second.f, EXPERTS, cols, o->stride, 1);
    o->of_x = f32_matrix(&o->first, o->stride);
    o->of_halves = f32_matrix(&o->second, o->stride);
    rig.plan.d_model = cols;
    rig.b.sizes.expert = STRIDE;
    rig.b.workspace = (struct workspace){
        .router = o->logits.at, .x_hi = o->halves.at, .x_lo = rig_take(&rig, 1).at};
}

/* The product alone, or with both halves of the router, one beside each of two. */
static void beside_run(const struct beside *o, int n_x, bool router)
{
    struct err e = {0};
    struct recorder r = rig_begin(&rig, (uint32_t)n_x, &e);
    struct linear_op op = {.label = "test",
                           .w = &o->w.m,
                           .x = o->x.at,
                           .y = o->y.at,
                           .x_stride = o->stride,
                           .y_stride = o->y_stride,
                           .n_x = (uint32_t)n_x};
    record_cast_f16(
        &r, &(struct cast_f16_op){
                .x = op.x, .x_stride = op.x_stride, .n_chunk = op.x_stride / 32, .n_x = op.n_x});
    record_barrier(&r);
    op.extra = router ? &o->of_x : NULL;
    record_gemm_linear(&r, &op, false);
    record_barrier(&r);
    op.extra = router ? &o->of_halves : NULL;
    op.extra_add = op.add = true;
    record_gemm_linear(&r, &op, false);
    rig_end(&r);
}

static void check_logits(const struct beside *o, int n_x)
{
    float row[2048];
    const int cols = o->w.cols;
    for (int t = 0; t < n_x; t++) {
        for (int i = 0; i < cols; i++) {
            const uint32_t at = (uint32_t)t * o->stride + (uint32_t)i;
            row[i] = value_of_half(o->halves.u[at / 2] >> (at % 2 * 16));
        }
        for (int e = 0; e < EXPERTS; e++) {
            const size_t at = (size_t)e * o->stride;
            const struct sum a = product(o->first.f + at, o->x.f + (size_t)t * o->stride, NULL, 1,
                                         cols),
                             b = product(o->second.f + at, row, NULL, 1, cols);
            assert_true(close_to(o->logits.f[t * STRIDE + e], a.v + b.v,
                                 tolerance(&a, false) + tolerance(&b, false)));
        }
    }
}

/* Of one and of two turns of eight rows: logits, the products as without them, and a row's logits
 * equal to the bit however many others there are. */
static void test_beside(void **state)
{
    const struct weight_form *f = *state;
    static const int n_rows[] = {5, ROWS_MOST};
    struct beside o;
    float alone[STRIDE];
    if (!few_rows_begin(f))
        skip();
    beside_init(&o, f);
    const size_t bytes = ROWS_MOST * o.y_stride * sizeof(float);
    float *plain = malloc(bytes);
    assert_non_null(plain);
    for (int i = 0; i < 2; i++) {
        memset(o.y.f, 0, bytes);
        beside_run(&o, n_rows[i], false);
        memcpy(plain, o.y.f, bytes);
        memset(o.y.f, 0, bytes);
        beside_run(&o, n_rows[i], true);
        check_logits(&o, n_rows[i]);
        assert_memory_equal(o.y.f, plain, bytes);
        if (i > 0)
            assert_memory_equal(o.logits.f + STRIDE, alone, EXPERTS * sizeof(float));
        memcpy(alone, o.logits.f + STRIDE, sizeof alone);
    }
    free(plain);
    stack_fini(&o.w);
    few_rows_end();
}

enum { ROWS = 5, USED = 4, D = 70, PADDED = 128, PLACES = 16 };

struct chosen { /* what router_choose.comp reads and leaves */
    struct rig_span x, norm, halves, logits, rows, ids, weights, used, counts, lists;
    float raw[ROWS * STRIDE];
};

static void chosen_init(struct chosen *o, struct device_layer *layer)
{
    rig_clear(&rig);
    *o = (struct chosen){.x = rig_take(&rig, ROWS * PADDED),
                         .norm = rig_take(&rig, PADDED),
                         .halves = rig_take(&rig, ROWS * PADDED / 2),
                         .logits = rig_take(&rig, ROWS * STRIDE),
                         .rows = rig_take(&rig, ROWS * 4),
                         .ids = rig_take(&rig, ROWS * USED),
                         .weights = rig_take(&rig, ROWS * USED),
                         .used = rig_take(&rig, USED_WORDS),
                         .counts = rig_take(&rig, EXPERTS),
                         .lists = rig_take(&rig, EXPERTS * PLACES)};
    randomize(o->x.f, ROWS, D, PADDED, 3);
    randomize(o->norm.f, 1, D, 0, 1);
    randomize(o->logits.f, ROWS, EXPERTS + 1, STRIDE, 6);
    for (int t = 0; t < ROWS; t++) /* two that nothing but their numbers tells apart */
        o->logits.f[t * STRIDE + 1] = o->logits.f[t * STRIDE] = 7;
    memcpy(o->raw, o->logits.f, sizeof o->raw);
    o->rows.rows[1][3] = (USED - 1) << 1;
    o->rows.rows[3][1] = STEP_PADDING;
    layer->shared_gate.n_matrix = 1;
    layer->ffn_norm = o->norm.at;
    rig.plan.d_model = D;
    rig.b.sizes.d = PADDED;
    rig.b.sizes.expert = STRIDE;
    rig.b.step.at_rows = o->rows.at;
    rig.b.workspace = (struct workspace){.x = o->x.at,
                                         .x_hi = o->halves.at,
                                         .router = o->logits.at,
                                         .ids = o->ids.at,
                                         .weights = o->weights.at,
                                         .used = o->used.at,
                                         .counts = o->counts.at,
                                         .sorted = o->lists.at};
}

/* The cast, and the gate's logit, of a row. */
static void check_cast(const struct chosen *o, int t, bool units)
{
    const float *row = o->x.f + t * PADDED;
    const double factor = rms_factor(row, D), gate = (double)o->raw[t * STRIDE + EXPERTS] * factor;
    assert_true(close_to(o->logits.f[t * STRIDE + EXPERTS], gate, 1e-5 * fabs(gate)));
    check_cast_row(row, o->norm.f, D, o->halves.u, t * PADDED, units);
}

/* The choice that record_route makes of whole logits. */
static void check_choice(const struct chosen *o, const struct moe_plan *m,
                         const struct device_layer *layer)
{
    struct err e = {0};
    const struct rig_span ids = rig_take(&rig, ROWS * USED), weights = rig_take(&rig, ROWS * USED);
    for (int t = 0; t < ROWS; t++) {
        const float factor = (float)rms_factor(o->x.f + t * PADDED, D);
        for (int i = 0; i < EXPERTS; i++)
            o->logits.f[t * STRIDE + i] = o->raw[t * STRIDE + i] * factor;
    }
    rig.b.workspace.ids = ids.at;
    rig.b.workspace.weights = weights.at;
    struct recorder c = rig_begin(&rig, ROWS, &e);
    record_route(&c, m, layer, 0, false);
    rig_end(&c);
    for (int i = 0; i < ROWS * USED; i++) {
        assert_int_equal(o->ids.i[i], ids.i[i]);
        if (ids.i[i] >= 0)
            assert_true(close_to(o->weights.f[i], (double)weights.f[i], 1e-5));
    }
    assert_int_equal(check_lists(o->ids.i, o->counts.u, o->lists.u, EXPERTS, PLACES),
                     (ROWS - 1) * USED - 1);
}

/* By the logits as they stand and by scores, into both orders of halves; a row that only pads, and
 * one that uses fewer experts. */
static void test_choose(void **state)
{
    static const enum router_score scores[] = {ROUTER_SOFTMAX, ROUTER_SIGMOID};
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        struct chosen o;
        struct device_layer layer = {0};
        struct err e = {0};
        const struct moe_plan m = {.n_expert = EXPERTS,
                                   .n_used = USED,
                                   .score = scores[turn],
                                   .normalize = true,
                                   .scale = 1.5f};
        chosen_init(&o, &layer);
        struct recorder c = rig_begin(&rig, ROWS, &e);
        router_fold_choose(&c, &layer,
                           &(struct mlp_op){.moe = &m, .lists = true, .units = turn == 1});
        rig_end(&c);
        for (int t = 0; t < ROWS; t++)
            check_cast(&o, t, turn == 1);
        check_choice(&o, &m, &layer);
    }
}

/* Which steps fold: what each row of the router reads again must not come to more than it saves. */
static void test_which_steps_fold(void **state)
{
    static const struct {
        uint32_t rows, experts;
        bool folds;
    } steps[] = {{2, 128, false}, {3, 128, true},  {16, 128, true}, {17, 8, false},
                 {8, 256, true},  {9, 256, false}, {4, 512, true},  {5, 512, false}};
    struct device_layer layer = {.n_qkv = 1, .wo.n_matrix = 1, .router_mixed.n_matrix = 1};
    const struct tuning before = rig.b.tuning;
    layer.qkv[0].layout.kernel = layer.wo.layout.kernel = "mxfp4";
    rig.b.tuning.few = WIDE_EMULATED;
    rig.b.tuning.gemm_min_rows = rig.b.tuning.gemm_expert_rows = 3;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const struct recorder r = {.b = &rig.b, .n_rows = steps[i].rows};
        layer.router.rows = steps[i].experts;
        assert_int_equal(record_gemm_folds(&r, &layer), steps[i].folds);
    }
    const struct recorder r = {.b = &rig.b, .n_rows = 3};
    layer.router.rows = 128;
    layer.wo.layout.kernel = "affine";
    assert_false(record_gemm_folds(&r, &layer));
    layer.wo.layout.kernel = "mxfp4";
    layer.router_mixed.n_matrix = 0;
    assert_false(record_gemm_folds(&r, &layer));
    rig.b.tuning = before;
}

int main(void)
{
    struct CMUnitTest tests[] = {
        {"mxfp4", test_beside, NULL, NULL, NULL},
        {"q8_0", test_beside, NULL, NULL, NULL},
        cmocka_unit_test(test_which_steps_fold),
        cmocka_unit_test(test_choose),
    };
    struct err e = {0};
    for (int f = 0; f < n_weight_forms; f++)
        for (int i = 0; i < 2; i++)
            if (strcmp(weight_forms[f].name, tests[i].name) == 0)
                tests[i].initial_state = (void *)&weight_forms[f];
    if (!rig_open(&rig, &e)) {
        fprintf(stderr, "skipped: %s\n", e.text);
        return 77;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rig_close(&rig);
    return failed;
}
