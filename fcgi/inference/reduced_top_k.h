/* What an answer says of itself when it used fewer experts than the model was trained with. */
#pragma once
#include "engine/base/buf.h"
#include "engine/engine.h"

/* Appends ,"experts_per_token":...,"lossy":true where that is so, else nothing: in usage and
 * timings of every dialect. */
void reduced_top_k_put(struct buf *out, const struct engine_usage *u);
