/* Walks JSON text in place, without a tree: for the two members of tokenizer.json that have
 * hundreds of thousands of entries. Safe on any bytes; what it skips is not checked (json_parse
 * does that). One cursor belongs to one thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/arena.h"

struct json_cursor {
    const char *p, *end;
    struct arena
        *arena; /* strings with escapes are written there; the others point into the text */
};

struct json_span { /* what a string says, or where a value stands */
    const char *at;
    size_t len;
};

/* The next character that is not white space; 0 at the end. */
char json_cursor_peek(struct json_cursor *c);
/* Takes that character if it is this one. */
bool json_cursor_take(struct json_cursor *c, char want);
/* Before each element or member, after the opening bracket was taken: 1 when one follows, 0 when
 * the closing one was taken, -1 for anything else. `n` counts the elements so far. */
int json_cursor_next(struct json_cursor *c, char close, size_t n);
/* A string, unescaped. False when it is not one, or memory ran out. */
bool json_cursor_string(struct json_cursor *c, struct json_span *out);
/* A member's name and the colon after it. */
bool json_cursor_key(struct json_cursor *c, struct json_span *out);
/* A whole number from 0 to max, without a sign, fraction or exponent. */
bool json_cursor_int(struct json_cursor *c, int64_t max, int64_t *out);
/* Any value. */
bool json_cursor_skip(struct json_cursor *c);
