/* The choice of experts: of logits that are no numbers, and by the router's own dispatch. */
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
            uint32_t listed = 0;
            for (int x = 0; x < EXPERTS; x++)
                for (uint32_t i = 0; i < counts.u[x]; i++, listed++)
                    assert_int_equal(ids.i[lists.u[x * 16 + i]], x);
            assert_int_equal(listed, ROWS * USED);
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

enum { ROWS = 5, EXPERTS = 72, STRIDE = 96, USED = 4, D = 70, PADDED = 96, PLACES = 16 };

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
static void check_row(const struct routed *o, int t)
{
    const float *row = o->x.f + t * PADDED;
    const double factor = rms_factor(row, D);
    for (int i = 0; i <= EXPERTS; i++) {
        struct sum s = product(o->w.f + i * PADDED, row, NULL, 1, D);
        assert_true(
            close_to(o->logits.f[t * STRIDE + i], s.v * factor, tolerance(&s, false) * factor));
    }
    for (int i = 0; i < D; i++) {
        const int at = t * PADDED + i;
        const double want = (double)row[i] * (double)o->norm.f[i] * factor,
                     have = (double)value_of_half(o->halves.u[at / 2] >> (at % 2 * 16));
        assert_true(close_to(have, want, 1e-3 * fabs(want) + 1e-6));
    }
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
        record_router(&c, &m, &layer, 0, true);
        rig_end(&c);
        for (int t = 0; t < ROWS; t++)
            assert_int_equal(o.arrived.u[t], 0);
    }
    const struct rig_span ids = rig_take(&rig, ROWS * USED), weights = rig_take(&rig, ROWS * USED);
    rig.b.workspace.ids = ids.at;
    rig.b.workspace.weights = weights.at;
    struct recorder c = rig_begin(&rig, ROWS, &e);
    record_route(&c, &m, &layer, 0, false);
    rig_end(&c);
    uint32_t listed = 0;
    for (int i = 0; i < ROWS * USED; i++) {
        assert_int_equal(o.ids.i[i], ids.i[i]);
        assert_true(o.weights.f[i] == weights.f[i]);
    }
    for (int i = 0; i < EXPERTS; i++)
        for (uint32_t k = 0; k < o.counts.u[i]; k++, listed++)
            assert_int_equal(o.ids.i[o.lists.u[i * PLACES + (int)k]], i);
    assert_int_equal(listed, (ROWS - 1) * USED - 1);
    for (int t = 0; t < ROWS; t++)
        check_row(&o, t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_route_of_no_numbers),
                                       cmocka_unit_test(test_router)};
    struct err e = {0};
    if (!rig_open(&rig, &e)) {
        fprintf(stderr, "skipped: %s\n", e.text);
        return 77;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rig_close(&rig);
    return failed;
}
