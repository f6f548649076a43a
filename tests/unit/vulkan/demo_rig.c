/* demo_rig.h: the demo model opened once for a program, backends and steps that fail the test. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/vulkan/demo_rig.h"

#define MOST_SEQUENCES 8
#define MOST_GROUPS 4096        /* that a device runs at once, by far */
#define MOST_SOFTWARE_GROUPS 23 /* of few threads, where each takes long */

struct model *model;

bool demo_usable(void)
{
    struct err e = {0};
    const bool usable = vulkan_backend.probe->usable(&e);
    if (!usable)
        fprintf(stderr, "skipped: %s\n", e.text);
    return usable;
}

int demo_open(void **state)
{
    const char *srcdir = getenv("srcdir");
    char path[4096];
    struct err e = {0};
    (void)state;
    snprintf(path, sizeof path, "%s/engine/demo-model", srcdir ? srcdir : ".");
    model = model_open(path, &e);
    return model ? 0 : -1;
}

int demo_close(void **state)
{
    (void)state;
    model_close(&model);
    return 0;
}

struct backend *plan_backend(const struct model_plan *plan, const struct backend_params *p)
{
    struct err e = {0};
    struct backend *b = vulkan_backend.open(plan, p, &e);
    if (!b)
        fail_msg("%s", e.text);
    return b;
}

struct backend *demo_backend(const struct backend_params *p)
{
    return plan_backend(model_plan(model), p);
}

const struct model_plan *demo_few_layers(void)
{
    static struct model_plan few;
    few = *model_plan(model);
    few.n_layer = few.n_attention = 3;
    return &few;
}

void demo_step(struct backend *b, const struct step_sequence *q, int32_t n, struct step_row *rows)
{
    struct err e = {0};
    const struct step s = {.sequences = q, .n_sequences = n, .n_top = 1};
    if (!vulkan_backend.step(b, &s, rows, &e))
        fail_msg("%s", e.text);
}

void demo_step_each(struct backend *b, int n, int32_t at, int32_t n_experts, struct step_row *rows)
{
    struct step_sequence q[MOST_SEQUENCES];
    int32_t tokens[MOST_SEQUENCES], blocks[MOST_SEQUENCES];
    assert_true(n <= MOST_SEQUENCES);
    for (int i = 0; i < n; i++) {
        tokens[i] = (i * 2531 + at * 977 + 17) % b->plan->n_vocab;
        blocks[i] = i;
        q[i] = (struct step_sequence){.tokens = &tokens[i],
                                      .n_tokens = 1,
                                      .start = at,
                                      .blocks = &blocks[i],
                                      .state = -1,
                                      .n_experts = n_experts,
                                      .n_out = 1,
                                      .want_logits = true};
    }
    demo_step(b, q, n, rows);
}

void demo_use_units(struct backend *b)
{
    const struct gpu_caps *c = &b->gpu.caps;
    if (!c->cooperative_matrix && c->float16 && c->subgroup >= 8)
        b->tuning.few = WIDE_EMULATED;
}

bool demo_force_few(struct backend *b)
{
    demo_use_units(b);
    b->tuning.few_rows = 64;
    b->tuning.few_threads = 64;
    b->tuning.gemm_min_rows = b->tuning.gemm_expert_rows = 3;
    return b->tuning.few != WIDE_NONE;
}

uint32_t demo_fitting_groups(const struct backend *b)
{
    return b->gpu.caps.multiprocessors ? b->gpu.caps.multiprocessors : 1;
}

uint32_t demo_too_many_groups(const struct backend *b)
{
    return (b->gpu.caps.software ? MOST_SOFTWARE_GROUPS : MOST_GROUPS) + 1;
}
