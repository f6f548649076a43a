/* demo_rig.h: the demo model opened once for a program, backends and steps that fail the test. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/vulkan/demo_rig.h"

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

void demo_step(struct backend *b, const struct step_sequence *q, int32_t n, struct step_row *rows)
{
    struct err e = {0};
    const struct step s = {.sequences = q, .n_sequences = n, .n_top = 1};
    if (!vulkan_backend.step(b, &s, rows, &e))
        fail_msg("%s", e.text);
}
