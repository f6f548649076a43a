/* Token ids from a file: a JSON array, numbers with spaces or commas between them, or a safetensors
 * file with I32 or I64 `input_ids`. "-" is standard input (not for safetensors). */
#pragma once
#include "engine/base/err.h"
#include "engine/tokenizer/tokenizer.h"

#define CLI_MAX_IDS (1 << 24)

/* Appends to out; ids are at least 0 and fit 31 bits. */
bool cli_ids_file(const char *path, struct ids *out, struct err *e);
bool cli_ids_text(const char *text, size_t len, struct ids *out, struct err *e);
