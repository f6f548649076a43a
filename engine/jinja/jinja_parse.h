/* From source to tokens to nodes. Private to jinja_compile.c, _lexer.c, _parse.c,
 * _statement.c, _expression.c, _postfix.c and _literal.c. */
#pragma once
#include "engine/jinja/jinja_ast.h"
#include "engine/jinja/jinja_run.h"

enum jtoken_type {
    T_EOF,
    T_DATA,
    T_VARIABLE_BEGIN,
    T_VARIABLE_END,
    T_BLOCK_BEGIN,
    T_BLOCK_END,
    T_NAME,
    T_STRING, /* text between the quotes, escapes as written */
    T_INTEGER,
    T_FLOAT,
    T_OPERATOR, /* one or two characters */
};

struct jtoken {
    enum jtoken_type type;
    const char *text; /* into the normalised source */
    uint32_t len;
    int line;
};
struct jtokens { /* owner frees `at` */
    struct jtoken *at;
    size_t n, cap;
};
/* The source has "\n" line ends only. Ends with T_EOF. */
bool jinja_lex(const char *source, size_t len, struct jtokens *out, struct err *e);

struct jparser {
    struct jinja_run run;    /* for making constants; its failure is the parser's */
    const struct jtoken *at; /* the current token */
    struct jinja *t;
    int depth; /* of nested expressions and blocks */
    int loops; /* for break and continue */
    int soft;  /* inside if: unknown filters fail only when they run */
    int cap_names;
    int *name_index; /* [n_index] place + 1, malloc'ed */
    int n_index;
    struct jmacro_scope {
        struct jmacro_scope *outer;
        uint8_t flags; /* MACRO_VARARGS ... */
    } *macro;
};
#define JINJA_MAX_NESTING 160

/* Fails with "line N: text"; returns NULL. */
struct jnode *jinja_syntax(struct jparser *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
bool jinja_is(const struct jparser *p, enum jtoken_type type,
              const char *text); /* text NULL: any */
bool jinja_accept(struct jparser *p, enum jtoken_type type, const char *text);
bool jinja_expect(struct jparser *p, enum jtoken_type type, const char *text);
/* How a message calls the current token. */
const char *jinja_token_name(struct jparser *p);
struct jnode *jinja_node(struct jparser *p, enum jnode_kind kind);
int jinja_name(struct jparser *p, const char *text, size_t len);

/* Statements and text up to a block that begins with one of `ends` (NULL-terminated; NULL: to the
 * end of the template). *ok: false after an error; an empty body is NULL too. */
struct jnode *jinja_parse_body(struct jparser *p, const char *const *ends, bool *ok);
struct jnode *jinja_parse_expression(struct jparser *p, bool with_condition);
/* A tuple without parentheses, or one expression. `end`: a word that ends it besides the block's
 * end. */
struct jnode *jinja_parse_tuple(struct jparser *p, bool with_condition, const char *end,
                                bool parentheses);
struct jnode *jinja_parse_filter(struct jparser *p, struct jnode *in);
struct jnode *jinja_parse_target(struct jparser *p, bool with_namespace, bool many);
struct jnode *jinja_parse_primary(struct jparser *p);
struct jnode *jinja_constant(struct jparser *p, struct jvalue v);
struct jnode *jinja_parse_string(struct jparser *p); /* strings side by side are one */
struct jnode *jinja_parse_number(struct jparser *p);
struct jnode *jinja_negate(struct jparser *p, struct jnode *n);
/* Attributes, subscripts and calls behind a value; and filters, tests and calls behind one, which
 * bind looser. */
struct jnode *jinja_parse_postfix(struct jparser *p, struct jnode *n);
struct jnode *jinja_parse_suffixes(struct jparser *p, struct jnode *n);
