/* Text being put together, with its provenance. The memory is malloc's, so that growing gives the
 * old block back; the result moves to the run's arena. Owner calls jinja_builder_fini or _take. */
#pragma once
#include "engine/jinja/jinja_value.h"

struct jbuilder {
    struct jinja_run *r;
    char *data;
    unsigned char *mark; /* NULL while all bytes have one origin */
    size_t len, cap;
    bool outside; /* the one origin */
};

void jinja_builder_init(struct jbuilder *b, struct jinja_run *r);
void jinja_builder_fini(struct jbuilder *b);
bool jinja_put(struct jbuilder *b, const char *data, size_t len, bool outside);
bool jinja_puts(struct jbuilder *b, const char *s); /* trusted */
bool jinja_put_string(struct jbuilder *b, const struct jstring *s);
/* Bytes [from, to) of s. */
bool jinja_put_part(struct jbuilder *b, const struct jstring *s, uint32_t from, uint32_t to);
/* Other bytes that stand for the character at `at` in s: they keep its origin. */
bool jinja_put_like(struct jbuilder *b, const char *data, size_t len, const struct jstring *s,
                    uint32_t at);
/* n times the same trusted character. */
bool jinja_put_fill(struct jbuilder *b, const char *c, size_t c_len, int64_t n);
/* The text so far as a value; the builder is finished. */
struct jvalue jinja_builder_take(struct jbuilder *b);

/* Print a value as Python's str() and repr() do. */
bool jinja_put_str(struct jbuilder *b, struct jvalue v);
bool jinja_put_repr(struct jbuilder *b, struct jvalue v);
struct jvalue jinja_str(struct jinja_run *r, struct jvalue v); /* a J_STRING; strings as they are */
/* Python's repr of a float into out[32]. */
void jinja_float_repr(double v, char *out);
/* & < > ' " as entities; the result is markup. */
struct jvalue jinja_escape(struct jinja_run *r, struct jvalue v);

/* Substring by bytes, sharing the memory. */
struct jvalue jinja_part(struct jinja_run *r, const struct jstring *s, uint32_t from, uint32_t to);
/* Byte offset of character `n` (n <= n_chars). */
uint32_t jinja_offset(const struct jstring *s, uint32_t n);
/* One character at data[0..len): its bytes (1..4, ill-formed: 1) and code point. */
uint32_t jinja_decode(const char *data, size_t len, uint32_t *code);
uint32_t jinja_count_chars(const char *data, size_t len);
size_t jinja_encode(uint32_t code, char out[4]);
