/* Loading a model that embeds or scores: whether it can, and what it needs of memory. Loop thread,
 * while the engine loads. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/engine.h"
#include "engine/memory/memory_plan.h"
#include "engine/model/plan.h"
#include "engine/tokenizer/vocab.h"

/* ERR_UNSUPPORTED: the model is not made for the task. */
bool embed_load_check(enum engine_task task, const struct model_plan *plan, const struct vocab *v,
                      struct err *e);
/* Sizes for steps of whole texts: rows for the longest one, blocks for what a step holds.
 * ERR_LIMIT: more is asked for than the model has positions. */
bool embed_load_request(const struct model_plan *plan, struct memory_request *request,
                        struct err *e);
/* The tokens that a decoder that scores is asked for; -1: there are none. */
void embed_load_words(const struct vocab *v, int32_t *yes, int32_t *no);
