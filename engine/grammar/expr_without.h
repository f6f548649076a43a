/* Text that holds none of some strings: what a model may write until a tag comes. Pure. */
#pragma once
#include <stddef.h>

#include "engine/grammar/builder.h"

#define TEXT_WITHOUT_MAX 512 /* characters of all strings together */

/* Any characters (not NUL), empty too, without any of the n strings; then `after` (expr_empty for
 * nothing). What follows may begin as a string would. stops[i]: UTF-8, not empty. */
expr expr_text_without(struct builder *b, const char *const *stops, size_t n, expr after);
