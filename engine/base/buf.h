/* A growing run of bytes: request bodies, JSON being written, frames.
 * Failure (no memory, over `limit`) is kept in `failed`, so that a chain of appends is checked
 * once. Not thread-safe; the owner calls buf_fini. A zeroed struct is an empty buffer without a
 * limit. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    char *data; /* always NUL-terminated once anything was appended */
    size_t len, cap;
    size_t limit; /* bytes; 0: none */
    bool failed;
};

void buf_fini(struct buf *b);  /* frees; leaves a zeroed buffer */
void buf_clear(struct buf *b); /* len = 0, failed = false, memory kept */
bool buf_reserve(struct buf *b, size_t more);
bool buf_append(struct buf *b, const void *data, size_t len);
bool buf_puts(struct buf *b, const char *s);
bool buf_putc(struct buf *b, char c);
bool buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool buf_ends_with(const struct buf *b,
                   char c); /* false for an empty buffer, and for one that failed before it began */
/* Drops the first n bytes. */
void buf_consume(struct buf *b, size_t n);

/* JSON: `"..."` with every control character, quote and backslash escaped; input must be UTF-8
 * (an ill-formed part becomes U+FFFD, so the output is always valid). Also escapes U+2028/2029. */
bool buf_json_string(struct buf *b, const char *s, size_t len);
/* The same without the quotes around it: a piece of a string that ends between two characters. */
bool buf_json_piece(struct buf *b, const char *s, size_t len);
/* One more member of an object, `,"name":"text"`; NULL is null. The name is one of ours: it is not
 * escaped. */
bool buf_json_member(struct buf *b, const char *name, const char *text);
/* A number as JSON: shortest form that reads back the same; null for NaN and infinities. */
bool buf_json_number(struct buf *b, double v);
