/* A message's Markdown as the parser is given it:
 *
 * Formulas in \( and \[: its rules would take their backslashes and stars. Each becomes a code span
 * that begins with MATH_MARK. Those in $ and $$ it knows. Lines between a table's head and its
 * rows: it wants three characters in each cell, where everyone else takes one. */
#pragma once
#include <stddef.h>

#include "engine/base/buf.h"

#define MATH_MARK "\xef\xb7\x90" /* U+FDD0, which stands for no character */

/* Not in fenced or indented code nor in code spans; no formula goes over an empty line. */
void markdown_source(struct buf *out, const char *text, size_t len);
