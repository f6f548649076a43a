/* GBNF, llama.cpp's grammar notation: `name ::= alternatives`, "text", [classes], [^classes], ., (
 * ), * + ? {m} {m,} {m,n}, # comments; the answer is what `root` matches. Refused with line and
 * column: anything else, left recursion, rules that are not defined or defined twice. Bounded time
 * and memory. Pure; thread-safe. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/grammar/builder.h"

#define GBNF_MAX_BYTES ((size_t)256 << 10)

/* The rule `root`; -1: *e (ERR_INPUT, ERR_LIMIT). */
expr gbnf_read(struct builder *b, const char *text, size_t len, struct err *e);
