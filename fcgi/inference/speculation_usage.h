/* What drafts did for an answer, as usage and timings say it. */
#pragma once
#include "engine/base/buf.h"
#include "engine/engine.h"

/* "accepted_prediction_tokens":..,"rejected_prediction_tokens":.. : of the client's own prediction,
 * as OpenAI counts them; other drafts are not in them. */
void speculation_usage_put_prediction(struct buf *out, const struct engine_usage *u);
/* Appends ,"speculation":{..}: all drafts. */
void speculation_usage_put_timings(struct buf *out, const struct engine_usage *u);
/* Adds those of another answer to the same request. */
void speculation_usage_add(struct engine_speculation *sum, const struct engine_speculation *more);
