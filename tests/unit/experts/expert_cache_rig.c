/* Opens the cache and takes a layer's experts, comparing their bytes with the model's mapping. */
#include "tests/unit/experts/expert_cache_rig.h"

struct err e;

void open_rig(struct rig *r, const char *path, struct expert_cache_params p)
{
    memset(&e, 0, sizeof e);
    r->model = model_open(path, &e);
    if (!r->model || !expert_layout_open(&r->layout, r->model, &e))
        fail_msg("%s", e.text);
    p.layout = &r->layout;
    p.plan = model_plan(r->model);
    r->store = expert_cache_open(&p, &e);
    if (!r->store)
        fail_msg("%s", e.text);
}

void close_rig(struct rig *r)
{
    expert_cache_close(&r->store);
    expert_layout_close(&r->layout);
    model_close(&r->model);
}

const char *demo(void)
{
    return expert_model_path("engine/demo-model");
}

struct expert_counters counters(const struct rig *r)
{
    struct expert_counters c;
    expert_cache_counters(r->store, &c);
    return c;
}

void check_matrices(const struct rig *r, int32_t layer, int32_t expert, int n)
{
    const struct moe_plan *got = &expert_cache_plan(r->store)->layers[layer].moe;
    const struct moe_plan *want = &model_plan(r->model)->layers[layer].moe;
    const struct weight a[] = {got->gate, got->up, got->down},
                        b[] = {want->gate, want->up, want->down};
    struct weight_planes x[3] = {0}, y[3] = {0};
    for (int i = 0; i < n; i++) {
        x[i] = weight_planes(&a[i], expert);
        y[i] = weight_planes(&b[i], expert);
    }
    assert_true(expert_record_checksum(a, x) ==
                expert_record_checksum(b, y)); /* planes that are nowhere are left out */
}

void check_bytes(const struct rig *r, int32_t layer, int32_t expert)
{
    check_matrices(r, layer, expert, EXPERT_MATRIX__N);
}

bool use(struct rig *r, int32_t layer, const int32_t *ids, int32_t n, bool in_order)
{
    struct expert_want wants[256];
    int32_t out[256], seen = 0, got;
    for (int32_t i = 0; i < n; i++)
        wants[i] = (struct expert_want){.expert = ids[i], .rows = 1};
    expert_cache_begin(r->store, &(struct expert_layer_request){.layer = layer,
                                                                .wants = wants,
                                                                .n = n,
                                                                .rows = in_order ? 64 : 1,
                                                                .in_order = in_order});
    while ((got = expert_cache_take(r->store, out, 256, true, &e)) > 0) {
        for (int32_t i = 0; i < got; i++) {
            if (in_order)
                assert_int_equal(out[i], ids[seen + i]);
            check_bytes(r, layer, out[i]);
        }
        seen += got;
        struct expert_counters c = counters(r);
        assert_true(c.resident_bytes <= c.budget_bytes);
        expert_cache_give(r->store, out, got);
    }
    expert_cache_end(r->store);
    if (got == 0)
        assert_int_equal(seen, n);
    return got == 0;
}
