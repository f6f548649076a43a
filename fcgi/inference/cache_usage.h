/* Where the cached part of a prompt came from, as usage and timings say it. */
#pragma once
#include "engine/base/buf.h"
#include "engine/engine.h"

/* {"device":..,"ram":..,"disk":..}: tokens, which add up to cached_tokens. */
void cache_usage_put_from(struct buf *out, const struct engine_usage *u);
/* Appends ,"cache":{"from":..,"read_bytes":..,"ms":..,"miss":..}; miss is null when the whole
 * prompt was found, as far as it can be. */
void cache_usage_put_timings(struct buf *out, const struct engine_usage *u);
