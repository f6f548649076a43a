/* The choice of experts: of logits that are no numbers, by the router's own dispatch, and by the
 * experts' first product from logits that lack the norm's factor. */
#include "tests/unit/vulkan/vulkan_kernel_rig.h"

/* Logits that are no numbers, as a damaged model makes them: whatever is chosen, there is such an
 * expert, and whoever takes ids for indices stays inside. */
static void test_route_of_no_numbers(void **state)
{
    enum { ROWS = 4, EXPERTS = 24, USED = 4, STRIDE = 32 };
    struct device_layer layer = {0};
    struct err e = {0};
    for (int score = 0; score <= ROUTER_SIGMOID; score++)
        for (int groups = 1; groups <= 4; groups += 3) {
            rig_clear(&rig);
            struct moe_plan m = {.n_expert = EXPERTS,
                                 .n_used = USED,
                                 .score = (enum router_score)score,
                                 .normalize = true,
                                 .scale = 1,
                                 .n_group = groups,
                                 .n_group_used = groups > 1 ? 2 : 0};
            struct rig_span logits = rig_take(&rig, ROWS * STRIDE), rows = rig_take(&rig, ROWS * 4),
                            ids = rig_take(&rig, ROWS * USED);
            struct rig_span weights = rig_take(&rig, ROWS * USED),
                            used = rig_take(&rig, USED_WORDS), counts = rig_take(&rig, EXPERTS),
                            lists = rig_take(&rig, EXPERTS * 16);
            for (int i = 0; i < ROWS * EXPERTS;
                 i++) { /* row 0 is sound, row 1 has one such expert, the others have no number */
                const int t = i / EXPERTS, x = i % EXPERTS;
                logits.f[t * STRIDE + x] = t > 1 || (t == 1 && x == 5) ? NAN : (float)x / 8;
            }
            for (int i = 0; i < ROWS * USED; i++)
                ids.i[i] = INT32_MIN;
            rig.b.sizes.expert = STRIDE;
            rig.b.step.at_rows = rows.at;
            rig.b.workspace = (struct workspace){.router = logits.at,
                                                 .ids = ids.at,
                                                 .weights = weights.at,
                                                 .used = used.at,
                                                 .counts = counts.at,
                                                 .sorted = lists.at};
            struct recorder c = rig_begin(&rig, ROWS, &e);
            record_route(&c, &m, &layer, 0, true);
            rig_end(&c);
            assert_int_equal(check_lists(ids.i, counts.u, lists.u, EXPERTS, 16), ROWS * USED);
            for (int k = 0; k < USED; k++)
                assert_int_equal(ids.i[k], EXPERTS - 1 - k);
            for (int i = 0; i < ROWS * USED; i++) {
                assert_in_range(ids.i[i], 0, EXPERTS - 1);
                if (groups == 1 && i >= 2 * USED &&
                    i % USED) /* all share the first rank: the other places are as they begin */
                    assert_int_equal(ids.i[i], i % USED);
            }
            assert_int_equal(used.u[0] >> EXPERTS, 0);
            for (int i = 1; i < USED_WORDS; i++)
                assert_int_equal(used.u[i], 0);
        }
}

enum { ROWS = 5, EXPERTS = 72, STRIDE = 96, USED = 4, D = 70, PADDED = 128, PLACES = 16 };

struct routed { /* what router.comp reads and leaves */
    struct rig_span w, x, norm, halves, logits, rows, ids, weights, used, counts, arrived, lists;
};

static void routed_init(struct routed *o, struct device_layer *layer)
{
    rig_clear(&rig);
    *o = (struct routed){.w = rig_take(&rig, (EXPERTS + 1) * PADDED),
                         .x = rig_take(&rig, ROWS * PADDED),
                         .norm = rig_take(&rig, PADDED),
                         .halves = rig_take(&rig, ROWS * PADDED / 2),
                         .logits = rig_take(&rig, ROWS * STRIDE),
                         .rows = rig_take(&rig, ROWS * 4),
                         .ids = rig_take(&rig, ROWS * USED),
                         .weights = rig_take(&rig, ROWS * USED),
                         .used = rig_take(&rig, USED_WORDS),
                         .counts = rig_take(&rig, EXPERTS),
                         .arrived = rig_take(&rig, RECORD_LIST_ROWS),
                         .lists = rig_take(&rig, EXPERTS * PLACES)};
    randomize(o->w.f, EXPERTS + 1, D, PADDED, 1);
    randomize(o->x.f, ROWS, D, PADDED, 1);
    randomize(o->norm.f, 1, D, 0, 1);
    o->rows.rows[1][3] = (USED - 1) << 1;
    o->rows.rows[3][1] = STEP_PADDING;
    layer->router_x.plane[0] = o->w.at;
    layer->router_x.rows = EXPERTS + 1;
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
                                         .arrived = o->arrived.at,
                                         .sorted = o->lists.at};
}

/* Logits, the last one of a shared expert's gate, and halves of a row. */
static void check_row(const struct routed *o, int t, bool units)
{
    const float *row = o->x.f + t * PADDED;
    const double factor = rms_factor(row, D);
    for (int i = 0; i <= EXPERTS; i++) {
        struct sum s = product(o->w.f + i * PADDED, row, NULL, 1, D);
        assert_true(
            close_to(o->logits.f[t * STRIDE + i], s.v * factor, tolerance(&s, false) * factor));
    }
    check_cast_row(row, o->norm.f, D, o->halves.u, t * PADDED, units);
}

/* Logits, choice, lists and cast of router.comp, twice: what it counts by is zero again. More
 * experts than a workgroup has; a row that only pads, and one that uses fewer experts. */
static void test_router(void **state)
{
    struct device_layer layer = {0};
    struct err e = {0};
    struct moe_plan m = {.n_expert = EXPERTS, .n_used = USED, .normalize = true, .scale = 1.5f};
    struct routed o;
    (void)state;
    routed_init(&o, &layer);
    for (int turn = 0; turn < 2; turn++) {
        memset(o.counts.u, 0, EXPERTS * 4);
        struct recorder c = rig_begin(&rig, ROWS, &e);
        record_router(&c, &layer, &(struct mlp_op){.moe = &m, .lists = true, .units = turn == 1});
        rig_end(&c);
        for (int t = 0; t < ROWS; t++) {
            assert_int_equal(o.arrived.u[t], 0);
            check_row(&o, t, turn == 1);
        }
    }
    const struct rig_span ids = rig_take(&rig, ROWS * USED), weights = rig_take(&rig, ROWS * USED);
    rig.b.workspace.ids = ids.at;
    rig.b.workspace.weights = weights.at;
    struct recorder c = rig_begin(&rig, ROWS, &e);
    record_route(&c, &m, &layer, 0, false);
    rig_end(&c);
    for (int i = 0; i < ROWS * USED; i++) {
        assert_int_equal(o.ids.i[i], ids.i[i]);
        assert_true(o.weights.f[i] == weights.f[i]);
    }
    assert_int_equal(check_lists(o.ids.i, o.counts.u, o.lists.u, EXPERTS, PLACES),
                     (ROWS - 1) * USED - 1);
}

/* --- the choice that moe_up makes itself --- */

struct choice_case {
    int n_expert, n_used, d_ff;
    enum router_score score;
    bool normalize;
};

struct choice {
    const struct choice_case *c;
    struct moe_plan m;
    struct device_layer layer;
    struct stack w;
    struct rig_span x, norm, logits, raw, rows, ids, weights, used, h;
    uint32_t stride;
};

static void choice_init(struct choice *o, const struct choice_case *c)
{
    const int n = c->n_expert, pairs = ROWS * c->n_used, rows[2] = {c->d_ff, c->d_ff};
    rig_clear(&rig);
    *o = (struct choice){.c = c,
                         .m = {.n_expert = n,
                               .n_used = c->n_used,
                               .score = c->score,
                               .normalize = c->normalize,
                               .scale = 1.5f},
                         .layer = {.shared_gate = {.n_matrix = 1}},
                         .stride = padded(n + 1)};
    stack_init(&o->w, weight_forms, n, rows, 2, cols_of(weight_forms, 2));
    const uint32_t d = padded(o->w.cols);
    o->x = rig_take(&rig, ROWS * d);
    o->norm = rig_take(&rig, d);
    o->logits = rig_take(&rig, ROWS * o->stride);
    o->raw = rig_take(&rig, ROWS * o->stride);
    o->rows = rig_take(&rig, ROWS * 4);
    o->ids = rig_take(&rig, (size_t)pairs);
    o->weights = rig_take(&rig, (size_t)pairs);
    o->used = rig_take(&rig, USED_WORDS);
    o->h = rig_take(&rig, (size_t)pairs * padded(c->d_ff));
    randomize(o->x.f, ROWS, o->w.cols, d, 3);
    randomize(o->norm.f, 1, o->w.cols, 0, 0.1f);
    randomize(o->logits.f, ROWS, n + 1, o->stride, 6);
    for (int t = 0; t < ROWS; t++) /* two that nothing but their numbers tells apart */
        o->logits.f[(uint32_t)t * o->stride + 1] = o->logits.f[(uint32_t)t * o->stride] = 7;
    memcpy(o->raw.f, o->logits.f, ROWS * o->stride * sizeof(float));
    o->rows.rows[1][3] = (c->n_used - 1) << 1;
    o->rows.rows[3][1] = STEP_PADDING;
    o->layer.mlp.gate_up = o->w.m;
    o->layer.mlp.gate_up.rows = (uint32_t)c->d_ff;
    o->layer.ffn_norm = o->norm.at;
    rig.plan.d_model = o->w.cols;
    rig.b.sizes.expert = o->stride;
    rig.b.step.at_rows = o->rows.at;
    rig.b.workspace = (struct workspace){.x = o->x.at,
                                         .router = o->logits.at,
                                         .ids = o->ids.at,
                                         .weights = o->weights.at,
                                         .used = o->used.at};
}

/* Where expert i of a row comes in the order of its logits. */
static int rank_of(const struct choice *o, const float *raw, int i)
{
    int rank = 0;
    for (int j = 0; j < o->c->n_expert; j++)
        rank += raw[j] > raw[i] || (raw[j] == raw[i] && j < i);
    return rank;
}

/* A score before it is divided by the sum of those that count. */
static double share_of(const struct choice *o, double logit)
{
    return o->c->score == ROUTER_SIGMOID ? 1 / (1 + exp(-logit)) : exp(logit);
}

/* ids, weights and the gate's logit of a row that lives; marks what it uses. */
static void check_choice(const struct choice *o, int t, uint32_t used[USED_WORDS])
{
    const struct choice_case *c = o->c;
    const float *raw = o->raw.f + (uint32_t)t * o->stride;
    const double factor = rms_factor(o->x.f + t * (int)padded(o->w.cols), o->w.cols);
    const int n_used = t == 1 ? c->n_used - 1 : c->n_used;
    const bool all = c->score == ROUTER_SOFTMAX && !c->normalize;
    double sum = 0;
    for (int i = 0; i < c->n_expert; i++)
        if (all || rank_of(o, raw, i) < n_used)
            sum += share_of(o, (double)raw[i] * factor);
    for (int i = 0; i < c->n_expert; i++) {
        const int rank = rank_of(o, raw, i);
        if (rank >= n_used)
            continue;
        const double want = share_of(o, (double)raw[i] * factor) / sum * (double)o->m.scale;
        assert_int_equal(o->ids.i[t * c->n_used + rank], i);
        assert_true(close_to(o->weights.f[t * c->n_used + rank], want, 1e-5 * want));
        used[i / 32] |= 1u << (i % 32);
    }
    for (int k = n_used; k < c->n_used; k++)
        assert_int_equal(o->ids.i[t * c->n_used + k], -1);
    const double gate = (double)raw[c->n_expert] * factor;
    assert_true(close_to(o->logits.f[(uint32_t)t * o->stride + (uint32_t)c->n_expert], gate,
                         1e-5 * fabs(gate)));
}

/* What the chosen experts made of a row. */
static void check_chosen(const struct choice *o, int t)
{
    const int d_ff = o->c->d_ff, d = o->w.cols;
    const float *x = o->x.f + t * (int)padded(d);
    for (int k = t * o->c->n_used; k < (t + 1) * o->c->n_used && o->ids.i[k] >= 0; k++)
        for (int r = 0; r < d_ff; r++) {
            const float *gate = o->w.at + (size_t)(o->ids.i[k] * d_ff + r) * (size_t)d,
                        *up = gate + (size_t)(o->c->n_expert * d_ff) * (size_t)d;
            const struct sum g = product(gate, x, o->norm.f, rms_factor(x, d), d),
                             u = product(up, x, o->norm.f, rms_factor(x, d), d);
            assert_true(close_to(o->h.f[(size_t)k * padded(d_ff) + (size_t)r],
                                 g.v / (1 + exp(-g.v)) * u.v,
                                 (1.2 * fabs(u.v) + 1.2) * tolerance(&g, false) +
                                     (fabs(g.v) + 0.3) * tolerance(&u, false)));
        }
}

/* Experts that one, two or four threads count for, more of them than threads, and so many rows of
 * an expert that workgroups grow; scores that go by the logits, and one that does not. */
static void test_choice_by_up(void **state)
{
    static const struct choice_case cases[] = {
        {3, 2, 5, ROUTER_TOPK_SOFTMAX, false}, {60, 4, 5, ROUTER_SOFTMAX, true},
        {126, 8, 5, ROUTER_SOFTMAX, false},    {254, 8, 5, ROUTER_SOFTMAX, true},
        {300, 4, 5, ROUTER_SOFTMAX, true},     {60, 4, 5, ROUTER_SIGMOID, true},
        {9, 8, 1930, ROUTER_SOFTMAX, true}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct choice o;
        struct err e = {0};
        uint32_t used[USED_WORDS] = {0};
        choice_init(&o, &cases[i]);
        struct recorder c = rig_begin(&rig, ROWS, &e);
        assert_true(record_mlp_up_folds(&c, &o.layer));
        record_mlp_up(&c, &(struct mlp_op){.m = &o.layer.mlp,
                                           .moe = &o.m,
                                           .layer = &o.layer,
                                           .h = o.h.at,
                                           .route = true,
                                           .folded = true});
        rig_end(&c);
        for (int t = 0; t < ROWS; t++)
            if (t != 3) {
                check_choice(&o, t, used);
                check_chosen(&o, t);
            }
        for (int k = 0; k < o.c->n_used; k++)
            assert_int_equal(o.ids.i[3 * o.c->n_used + k], -1);
        assert_memory_equal(o.used.u, used, sizeof used);
        stack_fini(&o.w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_route_of_no_numbers),
                                       cmocka_unit_test(test_router),
                                       cmocka_unit_test(test_choice_by_up)};
    struct err e = {0};
    if (!rig_open(&rig, &e)) {
        fprintf(stderr, "skipped: %s\n", e.text);
        return 77;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rig_close(&rig);
    return failed;
}
