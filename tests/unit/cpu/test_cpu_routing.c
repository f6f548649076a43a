/* The cpu backend with a router of the caller: the experts that it names are those that compute. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/open.h"
#include "engine/model/model.h"
#include "tests/unit/cpu/cpu_backend_rig.h"

struct routing {       /* what a test's router answers, and what the backend says it used */
    bool own;          /* the model's own choice, as recorded; else replaced_expert() */
    int32_t *recorded; /* [n_layer, TOKENS, n_used] */
    int checked;
};

static int32_t *recorded_ids(const struct routing *r, int32_t layer, int32_t position)
{
    int32_t used = plan->layers[layer].moe.n_used;
    return r->recorded + ((size_t)layer * TOKENS + (size_t)position) * (size_t)used;
}

static int32_t replaced_expert(int32_t layer, int32_t position, int32_t i)
{
    return (layer * 3 + position * 5 + i) % plan->layers[layer].moe.n_expert;
}

static void route(void *context, int32_t layer, int32_t sequence, int32_t position, int32_t *ids)
{
    const struct routing *r = context;
    for (int32_t i = 0; i < plan->layers[layer].moe.n_used; i++)
        ids[i] = r->own ? recorded_ids(r, layer, position)[i] : replaced_expert(layer, position, i);
}

static void record_ids(void *context, const char *name, const void *data, int32_t n, int32_t cols,
                       bool is_int)
{
    struct routing *r = context;
    int layer;
    char what[32];
    if (sscanf(name, "layers.%d.%31s", &layer, what) == 2 && !strcmp(what, "expert_ids"))
        memcpy(recorded_ids(r, layer, 0), data, (size_t)n * (size_t)cols * sizeof(int32_t));
}

static void check_ids(void *context, const char *name, const void *data, int32_t n, int32_t cols,
                      bool is_int)
{
    struct routing *r = context;
    const int32_t *ids = data;
    int layer;
    char what[32];
    if (sscanf(name, "layers.%d.%31s", &layer, what) != 2 || strcmp(what, "expert_ids"))
        return;
    for (int32_t i = 0; i < n * cols; i++)
        assert_int_equal(ids[i], replaced_expert(layer, i / cols, i % cols));
    r->checked++;
}

static void run_routed(struct backend_params p, int n)
{
    struct backend *b = cpu_open_with(plan, &p, kernels_best(), &e);
    assert_non_null(b);
    struct step_sequence q = part(0, 0, n);
    q.n_out = 1;
    run(b, &q, 1);
    free(alone[0]);
    alone[0] = malloc((size_t)plan->n_vocab * sizeof(float));
    memcpy(alone[0], rows[0].logits, (size_t)plan->n_vocab * sizeof(float));
    cpu_backend.close(&b);
}

/* Few rows (every thread chooses) and many (shared out): the replacement is what computes, and
 * replacing the router's choice by itself changes nothing. */
static void test_routing_can_be_replaced(void **state)
{
    for (int n = 3; n <= 40; n += 37) {
        struct routing r = {
            .recorded =
                calloc((size_t)plan->n_layer * TOKENS * (size_t)plan->layers[0].moe.n_used, 4)};
        struct backend_params p = {.n_blocks = 32,
                                   .n_states = STATES,
                                   .max_rows = ROWS,
                                   .max_sequences = SEQUENCES,
                                   .n_threads = 2,
                                   .dump = record_ids,
                                   .dump_context = &r};
        float *want = malloc((size_t)plan->n_vocab * sizeof *want);
        run_routed(p, n);
        memcpy(want, alone[0], (size_t)plan->n_vocab * sizeof *want);
        p.route = route;
        p.route_context = &r;
        p.dump = NULL;
        r.own = true;
        run_routed(p, n);
        assert_memory_equal(alone[0], want, (size_t)plan->n_vocab * sizeof *want);
        r.own = false;
        p.dump = check_ids;
        run_routed(p, n);
        assert_int_equal(r.checked, plan->n_layer);
        assert_memory_not_equal(alone[0], want, (size_t)plan->n_vocab * sizeof *want);
        free(want);
        free(r.recorded);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_routing_can_be_replaced),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
