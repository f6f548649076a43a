/* The builder's own state, shared by builder.c (expressions) and emit.c (program). Nobody else
 * includes this. */
#pragma once
#include "engine/base/arena.h"
#include "engine/grammar/builder.h"
#include "engine/grammar/program.h"

enum expr_kind {
    EXPR_EMPTY,
    EXPR_NEVER,
    EXPR_BYTES,
    EXPR_RANGE,
    EXPR_TOKEN,
    EXPR_CLASS,
    EXPR_SEQ,
    EXPR_ALT,
    EXPR_REPEAT,
    EXPR_RULE
};

struct expr_node {
    uint8_t kind;
    bool plain;       /* see expr_mark_plain */
    bool one;         /* BYTES: an escape, which counts as one character */
    uint16_t depth;   /* of expressions, rules not counted */
    uint32_t size;    /* nodes that it becomes, about; saturates */
    int32_t min, max; /* REPEAT; RANGE: lo, hi; TOKEN: id in min */
    expr body;        /* REPEAT; RULE: its definition or -1 */
    uint32_t n;       /* children, bytes or ranges */
    const void *list; /* expr[n], char[n] or struct cp_range[n]; RULE: its name or NULL */
};

struct builder {
    struct arena *arena;
    struct expr_node *nodes;
    int32_t n, cap;
    bool failed; /* memory or limit */
};
