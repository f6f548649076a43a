/* Experts of single rows on the matrix units, or on plain arithmetic in their place: the choice,
 * both products, and which shapes are left to the kernels that all devices have. */
#include "engine/vulkan/ops/dispatch.h"
#include "tests/unit/vulkan/vulkan_kernel_rig.h"

enum { ROWS = 4, SHORT = 1, DEAD = 2 }; /* a row that uses one expert less, one that pads */

struct shape {
    int n_expert, n_used, d, d_ff;
    enum router_score score;
    bool normalize, route, clamp, bias;
};

struct row_units {
    const struct shape *s;
    const struct weight_form *form;
    struct moe_plan moe;
    struct device_layer layer;
    struct stack gate_up, down;
    struct heap first; /* of gate_up */
    struct rig_span x, norm, logits, rows, ids, weights, used, h, b_gate_up, b_down;
    uint32_t stride;
    float *before; /* x and logits as they were */
    float *raw;
};

static void *copy_of(const float *at, size_t n)
{
    float *v = malloc(n * sizeof *v);
    memcpy(v, at, n * sizeof *v);
    return v;
}

static void take_spans(struct row_units *o)
{
    const struct shape *s = o->s;
    const size_t pairs = (size_t)(ROWS * s->n_used), n = (size_t)s->n_expert;
    o->x = rig_take(&rig, (size_t)ROWS * (size_t)s->d);
    o->norm = rig_take(&rig, (size_t)s->d);
    o->logits = rig_take(&rig, ROWS * o->stride);
    o->rows = rig_take(&rig, ROWS * 4);
    o->ids = rig_take(&rig, pairs);
    o->weights = rig_take(&rig, pairs);
    o->used = rig_take(&rig, USED_WORDS);
    o->h = rig_take(&rig, pairs * (size_t)s->d_ff);
    o->b_gate_up = rig_take(&rig, 2 * n * (size_t)s->d_ff);
    o->b_down = rig_take(&rig, n * (size_t)s->d);
}

static void fill_spans(struct row_units *o)
{
    const struct shape *s = o->s;
    randomize(o->x.f, ROWS, s->d, (uint32_t)s->d, 3);
    for (int i = 0; i < s->d; i++)
        o->x.f[i] *= i < 32 ? 1e-7f : 3e6f; /* what no half holds */
    randomize(o->norm.f, 1, s->d, 0, 0.1f);
    randomize(o->logits.f, ROWS, s->n_expert, o->stride, 6);
    for (int t = 0; t < ROWS; t++) { /* two that nothing but their numbers tells apart */
        float *at = o->logits.f + (uint32_t)t * o->stride;
        at[s->n_expert - 1] = at[0] = 7;
    }
    randomize(o->b_gate_up.f, 1, 2 * s->n_expert * s->d_ff, 0, 0.5f);
    randomize(o->b_down.f, 1, s->n_expert * s->d, 0, 0.5f);
    for (int t = 0; t < ROWS; t++) {
        o->rows.rows[t][1] = t == DEAD ? STEP_PADDING : t;
        o->rows.rows[t][3] = t == SHORT ? (s->n_used - 1) << 1 : 0;
        for (int k = 0; k < s->n_used && !s->route; k++) {
            o->ids.i[t * s->n_used + k] =
                t == DEAD || (t == SHORT && k == s->n_used - 1) ? -1 : (t * 5 + k) % s->n_expert;
            o->weights.f[t * s->n_used + k] = 0.3f + 0.1f * (float)k;
        }
    }
    o->before = copy_of(o->x.f, (size_t)ROWS * (size_t)s->d);
    o->raw = copy_of(o->logits.f, ROWS * o->stride);
}

static void begin(struct row_units *o, const struct shape *s)
{
    const int rows[2] = {s->d_ff, s->d_ff};
    rig_clear(&rig);
    *o = (struct row_units){.s = s, .form = weight_form_of("mxfp4"), .stride = padded(s->n_expert)};
    o->moe = (struct moe_plan){.n_expert = s->n_expert,
                               .n_used = s->n_used,
                               .score = s->score,
                               .normalize = s->normalize,
                               .scale = 1.5f};
    stack_init(&o->gate_up, o->form, s->n_expert, rows, 2, s->d);
    o->first = rig.weights; /* both stay on the device */
    rig.weights = (struct heap){0};
    stack_init(&o->down, o->form, s->n_expert, &s->d, 1, s->d_ff);
    take_spans(o);
    fill_spans(o);
    o->layer = (struct device_layer){.ffn_norm = o->norm.at};
    o->layer.mlp = (struct device_mlp){.gate_up = o->gate_up.m,
                                       .down = o->down.m,
                                       .b_gate_up = s->bias ? o->b_gate_up.at : 0,
                                       .b_down = s->bias ? o->b_down.at : 0};
    o->layer.mlp.gate_up.rows = (uint32_t)s->d_ff;
    rig.plan.d_model = s->d;
    rig.b.sizes.d = (uint32_t)s->d;
    rig.b.sizes.expert = o->stride;
    rig.b.step.at_rows = o->rows.at;
    rig.b.workspace = (struct workspace){.x = o->x.at,
                                         .router = o->logits.at,
                                         .ids = o->ids.at,
                                         .weights = o->weights.at,
                                         .used = o->used.at};
}

static void end(struct row_units *o)
{
    heap_fini(&o->first, &rig.b.gpu);
    stack_fini(&o->gate_up);
    stack_fini(&o->down);
    free(o->before);
    free(o->raw);
}

static struct mlp_op op_of(const struct row_units *o)
{
    return (struct mlp_op){.m = &o->layer.mlp,
                           .moe = &o->moe,
                           .layer = &o->layer,
                           .h = o->h.at,
                           .clamp = o->s->clamp,
                           .route = o->s->route,
                           .folded = o->s->route};
}

/* Whether each half is done on the units. */
static void taken(const struct row_units *o, const struct mlp_op *op, bool *up, bool *down)
{
    struct recorder r = {.b = &rig.b, .n_rows = ROWS, .ok = true};
    struct dispatch first = {.shader = "moe_up"}, second = {.shader = "moe_down"};
    (void)o;
    row_units_up(&r, op, &first);
    row_units_down(&r, op, &second);
    *up = strstr(first.shader, "moe_up_units") != NULL;
    *down = strstr(second.shader, "moe_down_units") != NULL;
}

/* Where expert i of a row comes in the order of its logits. */
static int rank_of(const struct row_units *o, const float *raw, int i)
{
    int rank = 0;
    for (int j = 0; j < o->s->n_expert; j++)
        rank += raw[j] > raw[i] || (raw[j] == raw[i] && j < i);
    return rank;
}

/* What was written down of row t, which lives, and marks what it uses. */
static void check_choice(const struct row_units *o, int t, uint32_t used[USED_WORDS])
{
    const struct shape *s = o->s;
    const float *raw = o->raw + (uint32_t)t * o->stride;
    const double factor = rms_factor(o->before + (size_t)t * (size_t)s->d, s->d);
    const int n_used = t == SHORT ? s->n_used - 1 : s->n_used;
    double sum = 0;
    for (int i = 0; i < s->n_expert; i++)
        if ((s->score == ROUTER_SOFTMAX && !s->normalize) || rank_of(o, raw, i) < n_used)
            sum += exp((double)(raw[i] - 7) * factor);
    for (int i = 0; i < s->n_expert; i++) {
        const int rank = rank_of(o, raw, i);
        if (rank >= n_used)
            continue;
        const double want = exp((double)(raw[i] - 7) * factor) / sum * (double)o->moe.scale;
        assert_int_equal(o->ids.i[t * s->n_used + rank], i);
        assert_true(close_to(o->weights.f[t * s->n_used + rank], want, 2e-5 * want));
        used[i / 32] |= 1u << (i % 32);
    }
    for (int k = n_used; k < s->n_used; k++)
        assert_int_equal(o->ids.i[t * s->n_used + k], -1);
}

static double activation(bool clamp, double g, double u)
{
    if (!clamp)
        return g / (1 + exp(-g)) * u;
    g = g < 7 ? g : 7;
    u = u < -7 ? -7 : u > 7 ? 7 : u;
    return (u + 1) * g / (1 + exp(-1.702 * g));
}

static void check_up(const struct row_units *o, int t, int k)
{
    const struct shape *s = o->s;
    const int e = o->ids.i[t * s->n_used + k];
    const float *x = o->before + (size_t)t * (size_t)s->d;
    for (int i = 0; i < s->d_ff; i++) {
        const int gate = e * s->d_ff + i, up = (s->n_expert + e) * s->d_ff + i;
        struct sum g = product(o->gate_up.at + (size_t)gate * (size_t)s->d, x, o->norm.f,
                               rms_factor(x, s->d), s->d),
                   u = product(o->gate_up.at + (size_t)up * (size_t)s->d, x, o->norm.f,
                               rms_factor(x, s->d), s->d);
        g.v += s->bias ? (double)o->b_gate_up.f[gate] : 0;
        u.v += s->bias ? (double)o->b_gate_up.f[up] : 0;
        const double want = activation(s->clamp, g.v, u.v),
                     tol = (1.2 * fabs(u.v) + 1.2) * tolerance(&g, false) +
                           (fabs(g.v) + 0.3) * tolerance(&u, false);
        const float have = o->h.f[(size_t)(t * s->n_used + k) * (size_t)s->d_ff + (size_t)i];
        if (!close_to(have, want, tol))
            fail_msg("up of row %d, slot %d, %d is %g, want %g", t, k, i, (double)have, want);
    }
}

static void check_down(const struct row_units *o, int t, int n_used)
{
    const struct shape *s = o->s;
    for (int i = 0; i < s->d; i++) {
        const float x = o->before[t * s->d + i], have = o->x.f[t * s->d + i];
        double want = (double)x, tol = 1e-7 * fabs((double)x);
        for (int k = 0; k < n_used; k++) {
            const int pair = t * s->n_used + k, row = o->ids.i[pair] * s->d + i;
            const struct sum v = product(o->down.at + (size_t)row * (size_t)s->d_ff,
                                         o->h.f + (size_t)pair * (size_t)s->d_ff, NULL, 1, s->d_ff);
            want += (double)o->weights.f[pair] * (v.v + (s->bias ? (double)o->b_down.f[row] : 0));
            tol += 2 * tolerance(&v, false);
        }
        if (!close_to(have, want, tol))
            fail_msg("down of row %d, %d is %g, want %g", t, i, (double)have, want);
    }
}

static void check(const struct shape *s)
{
    struct row_units o;
    struct err e = {0};
    uint32_t used[USED_WORDS] = {0};
    bool up, down;
    begin(&o, s);
    const struct mlp_op op = op_of(&o);
    taken(&o, &op, &up, &down);
    assert_true(up && down);
    for (int k = 0; k < s->n_used; k++) { /* of a place that is not used nobody may read h */
        const size_t n = (size_t)s->d_ff;
        if (k == s->n_used - 1)
            memset(o.h.f + (size_t)(SHORT * s->n_used + k) * n, 0xff, n * sizeof(float));
        memset(o.h.f + (size_t)(DEAD * s->n_used + k) * n, 0xff, n * sizeof(float));
    }
    struct recorder c = rig_begin(&rig, ROWS, &e);
    record_mlp_up(&c, &op);
    record_barrier(&c);
    record_mlp_down(&c, &op);
    rig_end(&c);
    for (int t = 0; t < ROWS; t++) {
        const int n_used = t == DEAD ? 0 : t == SHORT ? s->n_used - 1 : s->n_used;
        if (s->route && t != DEAD)
            check_choice(&o, t, used);
        for (int k = 0; k < s->n_used && t == DEAD; k++)
            assert_int_equal(o.ids.i[t * s->n_used + k], -1);
        for (int k = 0; k < n_used; k++)
            check_up(&o, t, k);
        check_down(&o, t, n_used);
    }
    assert_memory_equal(o.used.u, used, sizeof used);
    end(&o);
}

/* A tile or three for 32 threads, one slice of the columns or several, one, two or four steps of
 * scales in a load; experts that a thread has one of, four (of 126 and 128 with 32 threads, of 30
 * with eight), or more. */
static void test_shapes(void **state)
{
    static const struct shape shapes[] = {
        {5, 2, 128, 128, ROUTER_SOFTMAX, true, true, false, false},
        {126, 4, 2048, 128, ROUTER_TOPK_SOFTMAX, false, true, true, true},
        {128, 3, 1280, 384, ROUTER_SOFTMAX, false, true, false, false},
        {30, 4, 256, 256, ROUTER_SOFTMAX, true, true, false, false},
        {9, 8, 512, 256, ROUTER_SOFTMAX, true, false, false, true}};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check(&shapes[i]);
}

/* What the units' form does not do goes to the other. */
static void test_left(void **state)
{
    static const struct shape shape = {5, 2, 128, 128, ROUTER_SOFTMAX, true, true, false, false};
    struct row_units o;
    bool up, down;
    (void)state;
    begin(&o, &shape);
    for (int i = 0; i < 9; i++) {
        struct mlp_op op = op_of(&o);
        struct device_mlp m = o.layer.mlp;
        struct device_layer l = o.layer;
        struct moe_plan moe = o.moe;
        op.m = &m, op.layer = &l, op.moe = i == 0 ? NULL : &moe;
        rig.b.params.exact = i == 1;
        l.split_experts.table = i == 2;
        m.gate_up.layout.n_chunk -= i == 3, m.down.layout.n_chunk -= i == 3;
        m.gate_up.rows -= i == 4, m.down.rows -= i == 4;
        m.gate_up.layout.kernel = m.down.layout.kernel = i == 5 ? "block" : "mxfp4";
        moe.score = i == 6 ? ROUTER_SIGMOID : ROUTER_SOFTMAX;
        op.shared = i == 7 ? &op : NULL;
        moe.has_shared = i == 8;
        taken(&o, &op, &up, &down);
        assert_int_equal(up, i == 7);
        assert_int_equal(down, i == 6);
    }
    rig.b.params.exact = false;
    end(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes), cmocka_unit_test(test_left)};
    struct err e = {0};
    if (!rig_open(&rig, &e)) {
        fprintf(stderr, "skipped: %s\n", e.text);
        return 77;
    }
    int failed = 77;
    if (few_rows_begin(weight_form_of("mxfp4"))) {
        failed = cmocka_run_group_tests(tests, NULL, NULL);
        few_rows_end();
    }
    rig_close(&rig);
    return failed;
}
