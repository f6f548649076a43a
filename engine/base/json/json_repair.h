/* Escapes in other programs' JSON that stand for no character a text of ours can hold: \u0000 (C
 * strings end there) and halves of surrogate pairs. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum json_repair { JSON_REPAIR_ALL, JSON_REPAIR_SURROGATES /* \u0000 stays */ };

/* Writes \ufffd in their place, in the JSON text itself, and returns how many there were. *first
 * (may be NULL) is the offset of the first one, untouched when there was none. */
int64_t json_repair(char *text, size_t len, enum json_repair what, size_t *first);
/* The place in a JSON text at which its byte `at` stands, as errors name fields:
 * messages[2].content. Cut to size - 1 bytes; empty at the top. The text before `at` is taken to be
 * well-formed. */
void json_path(const char *text, size_t at, char *out, size_t size);
