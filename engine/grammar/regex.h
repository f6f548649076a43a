/* Regular expressions as JSON Schema's "pattern" writes them (ECMA 262), the part that is regular:
 * characters, classes, . \d \w \s and their negations, \n \r \t \f \v \0 \xHH \uHHHH \u{H}, groups,
 * |, * + ? {m,n} (also lazy), ^ and $ at the ends. Refused: look-around, back references, \b, \p,
 * flags. The expression matches whole strings: where the pattern is not anchored any text may stand
 * before or after. Characters are those of a JSON string's value, or plain text. Bounded; pure;
 * thread-safe. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/grammar/builder.h"

typedef expr (*regex_class_fn)(struct builder *b, const struct cp_range *ranges, size_t n);

/* make: how a class of characters is written (expr_json_class, expr_class). -1: *e
 * (ERR_UNSUPPORTED, ERR_INPUT). */
expr regex_read(struct builder *b, const char *pattern, regex_class_fn make, struct err *e);
/* The same for a pattern that is to match the whole text, anchored or not, as the fields of other
 * servers mean it. */
expr regex_read_whole(struct builder *b, const char *pattern, regex_class_fn make, struct err *e);
