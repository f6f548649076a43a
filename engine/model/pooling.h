/* How a model's files say that its rows become vectors: the modules of sentence-transformers beside
 * a folder's config.json, or GGUF's pooling_type. Read by model.c; one thread. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"
#include "engine/model/config.h"
#include "engine/model/plan.h"

/* Fills p->pooling; the rest of the plan is complete. folder: unused for GGUF. ERR_UNSUPPORTED: a
 * kind that is not computed here. */
bool pooling_read(struct config *c, const char *folder, struct model_plan *p, struct err *e);
/* "none", "mean", "cls", "last" */
const char *pooling_name(enum pooling pooling);
