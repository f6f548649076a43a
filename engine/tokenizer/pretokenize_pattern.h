/* Split patterns are written for Oniguruma (Ruby syntax), the regular expressions of Hugging Face
 * `tokenizers`; here they are rewritten for PCRE2. Called by pretokenize_pcre.c only. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

/* Appends the rewritten pattern. ERR_UNSUPPORTED for what would mean something else in PCRE2 (set
 * operations in classes, named groups, word boundaries, {n,m}+ and so on): a pattern that splits
 * otherwise gives wrong ids without any other sign. */
bool pretokenize_pattern_rewrite(const char *pattern, size_t len, struct buf *out, struct err *e);
