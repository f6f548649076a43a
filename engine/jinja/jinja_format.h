/* One value by the formatting languages of Python. Private to jinja_format*.c. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/jinja/jinja_run.h"

struct jformat { /* a parsed specification, such as %-8.3f or {:>8} */
    bool left, plus, space, zero, alternate, comma, underscore, center, equal;
    char fill[4];
    size_t fill_len;
    int64_t width, precision; /* -1: none */
    char kind;
};

/* Writes text with its width and fill; `number`: zeros go behind the sign. */
void jinja_format_pad(struct jbuilder *b, const struct jformat *s, struct jvalue text, bool number);
/* Digits of an integer in a base, with its sign and, for '#', its prefix. */
struct jvalue jinja_format_integer(struct jinja_run *r, const struct jformat *s, int64_t v);
/* A float by its kind (e, f, g, %) and precision. */
struct jvalue jinja_format_float(struct jinja_run *r, const struct jformat *s, double v);
/* Prints like repr, with the sign that the format asks for. */
struct jvalue jinja_format_float_repr(struct jinja_run *r, const struct jformat *s, double v);
/* False when the value is no whole number of 64 bits. */
bool jinja_format_to_integer(struct jvalue v, int64_t *out);
/* The text, no longer than the precision. */
struct jvalue jinja_format_cut(struct jinja_run *r, const struct jformat *s, struct jvalue text);
/* repr(v) */
struct jvalue jinja_format_repr(struct jinja_run *r, struct jvalue v);
/* chr(v), or a text of one character. */
struct jvalue jinja_format_char(struct jinja_run *r, struct jvalue v);
