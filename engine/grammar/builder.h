/* Grammars put together from expressions, then emitted as a program. What the readers of GBNF,
 * regular expressions, JSON Schema and tool calls have in common.
 *
 * An expression is a number, good until the builder is destroyed and usable in several places. Out
 * of memory or over the limits the builder remembers the failure, every later call gives a harmless
 * number, and builder_finish reports it. Owner: one thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

struct builder;
typedef int32_t expr;

#define EXPR_NO_MAX (-1) /* repeat without an upper bound */
#define EXPR_MAX_COUNT 1000000

/* max_bytes bounds the memory of expressions; 0: 64 MiB. */
struct builder *builder_create(size_t max_bytes, struct err *e);
void builder_destroy(struct builder **b);
bool builder_failed(const struct builder *b);

expr expr_empty(struct builder *b);
expr expr_never(struct builder *b); /* matches nothing; what needs it disappears */
bool expr_is_never(const struct builder *b, expr x);
expr expr_bytes(struct builder *b, const void *data, size_t len);
expr expr_text(struct builder *b, const char *text);
expr expr_byte_range(struct builder *b, uint8_t lo, uint8_t hi);
/* A special token, by its id. */
expr expr_token(struct builder *b, int32_t id);

struct cp_range { /* code points lo .. hi */
    uint32_t lo, hi;
};
/* One character, as UTF-8; the ranges may overlap and are in any order. */
expr expr_class(struct builder *b, const struct cp_range *ranges, size_t n);
expr expr_class_not(struct builder *b, const struct cp_range *ranges, size_t n);
/* One character of a JSON string's value in its canonical spelling: what needs an escape has its
 * short one. */
expr expr_json_class(struct builder *b, const struct cp_range *ranges, size_t n);

expr expr_seq(struct builder *b, const expr *list, size_t n);
expr expr_alt(struct builder *b, const expr *list, size_t n);

struct expr_list { /* growing; its memory is the builder's. Zeroed: empty */
    expr *at;
    size_t n, cap;
};
void expr_list_add(struct builder *b, struct expr_list *l, expr x);
expr expr_seq_list(struct builder *b, const struct expr_list *l);
expr expr_alt_list(struct builder *b, const struct expr_list *l);

/* min .. max times; max EXPR_NO_MAX: no bound. */
expr expr_repeat(struct builder *b, expr x, int32_t min, int32_t max);
expr expr_optional(struct builder *b, expr x);
/* x is any character of a JSON string (at least all that need no escape): its repeats are marked
 * for masks. */
void expr_mark_plain(struct builder *b, expr x);
/* Shorthand. */
expr expr_seq2(struct builder *b, expr x, expr y);
expr expr_seq3(struct builder *b, expr x, expr y, expr z);
expr expr_alt2(struct builder *b, expr x, expr y);

/* A rule is declared, used in any number of places, and defined once. `name` is for messages, may
 * be NULL. */
expr expr_rule(struct builder *b, const char *name);
void expr_define(struct builder *b, expr rule, expr body);

/* Characters that x may match at least and at most, as expr_class counts them; max -1: no bound
 * (also for rules). */
void expr_length(const struct builder *b, expr x, int64_t *min, int64_t *max);

/* The program for `start`, appended to out. ERR_INPUT: nothing can match (text says so), left
 * recursion (names the rule), a rule that is not defined; ERR_LIMIT: too large; ERR_NOMEM. */
bool builder_finish(struct builder *b, expr start, struct buf *out, struct err *e);
