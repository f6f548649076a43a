/* Parts of a JSON text by their bytes: for what must be kept as it was written. The text must have
 * passed json_parse; no memory is taken. Thread-safe. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct json_slice {
    const char *text; /* one value, without the space around it; NULL: none */
    size_t len;
};

struct json_slice json_slice_of(const char *text, size_t len);
/* The member's value; none when it is absent. `name` is compared with the key as written, so it
 * must need no escapes. */
struct json_slice json_slice_member(struct json_slice object, const char *name);
/* The array's element after `before` (none: its first); none at the end. */
struct json_slice json_slice_next(struct json_slice array, struct json_slice before);
