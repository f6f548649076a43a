/* Characters that other programs' exports hold and no text of ours can: \u0000 and halves of surrogate pairs. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Writes \ufffd in their place, in the JSON text itself. How many it were. */
int64_t import_repair(char *text, size_t len);
