/* Matches stop strings in a stream of text, byte by byte: the stop that is complete first wins (of
 * several that end at the same byte, the longest), however the text was split. What may be the
 * beginning of a stop is held back, so no part of one is ever shown. Each answer has its own
 * matcher. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

struct stop_matcher;

/* Copies the strings; n == 0 is allowed and passes everything through. */
struct stop_matcher *stop_matcher_create(const char *const *stops, int32_t n, struct err *e);
void stop_matcher_destroy(struct stop_matcher **m);
/* Appends to out what may be shown. Returns the index of the stop that was met (then out has the
 * text before it and nothing more may be pushed), or -1. */
int32_t stop_matcher_push(struct stop_matcher *m, const char *text, size_t len, struct buf *out);
/* The text, or a part of it, ended without a stop: appends what was held back and restarts the
 * matching. */
void stop_matcher_flush(struct stop_matcher *m, struct buf *out);
