/* Plans a model and the draft model, or its next-token layer, beside it: the engine and `sluice
 * info` ask here, so that what is shown is what runs. A draft model that was named is planned or
 * refused; one that was only found in the model's folder never costs the model anything that it
 * needs. One thread. */
#pragma once
#include <stdbool.h>

#include "engine/draft/draft_load.h"

struct draft_plan_params {
    const struct model *model;
    const char *backend; /* as asked for */
    enum engine_speculate speculate;
    const char *option; /* --draft-model */
    struct draft_load_params load;
};

/* Fills both; neither may move afterwards. Where there is to be no draft model, *drafts has none,
 * `left_out` says why if one was found, and the model's plan takes the memory. */
bool draft_plan_make(struct draft_load *drafts, struct memory_load *memory,
                     const struct draft_plan_params *p, const struct memory_request *w,
                     struct err *e);
