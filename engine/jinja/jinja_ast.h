/* The compiled form of a template: a tree of nodes in the template's arena, read-only once
 * compiled. */
#pragma once
#include "engine/base/arena.h"
#include "engine/jinja/jinja_value.h"

enum jnode_kind {
    /* expressions */
    N_CONST,   /* value */
    N_NAME,    /* name */
    N_GETATTR, /* a . value */
    N_GETITEM, /* a [ b ] */
    N_SLICE,   /* as an index: a : b : c, each may be NULL */
    N_CALL,    /* a ( list ) */
    N_FILTER,  /* a | builtin ( list ); a NULL: of a block's text */
    N_TEST,    /* a is builtin ( list ) */
    N_NOT,     /* a */
    N_UNARY,   /* op a */
    N_BINARY,  /* a op b */
    N_CONCAT,  /* list joined by ~ */
    N_COMPARE, /* a, then list of (op, a) */
    N_AND,
    N_OR,
    N_COND,  /* b if a else c; c may be NULL */
    N_LIST,  /* list */
    N_TUPLE, /* list */
    N_DICT,  /* list of (a: b) */
    N_NSREF, /* assignment target: name . value */
    /* statements */
    N_TEXT,         /* value */
    N_OUTPUT,       /* list */
    N_IF,           /* a: list, else body */
    N_FOR,          /* a target, b items, c condition; list, else body */
    N_SET,          /* a target, b value */
    N_SET_BLOCK,    /* a target, b filter or NULL; list */
    N_WITH,         /* args: list of N_SET; body */
    N_MACRO,        /* name, args: list of parameters (name, a = default); list */
    N_CALL_BLOCK,   /* a call, b the caller as N_MACRO */
    N_FILTER_BLOCK, /* b filter; list */
    N_SCOPE,        /* list, in its own scope: generation, block */
    N_AUTOESCAPE,   /* a; list */
    N_BREAK,
    N_CONTINUE,
    N_FAIL /* value: what running it says */
};

enum joperator {
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_FLOORDIV,
    OP_MOD,
    OP_POW,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_NOT_IN,
    OP_NEG,
    OP_POS,
};

enum {                   /* flags */
       ARG_STAR = 1,     /* *list */
       ARG_STARSTAR = 2, /* **dict */
       FOR_RECURSIVE = 1,
       MACRO_VARARGS = 1, /* the body mentions `varargs` ... */
       MACRO_KWARGS = 2,
       MACRO_CALLER = 4,
};

struct jbuiltin;

struct jnode {
    uint8_t kind; /* enum jnode_kind */
    uint8_t op;   /* enum joperator */
    uint8_t flags;
    int line;
    int name;           /* interned; -1: none */
    struct jnode *next; /* in the list that this node is in */
    struct jnode *a, *b, *c;
    struct jnode *list;  /* children in order: arguments, items, a body's statements */
    struct jnode *other; /* the else body, or parameters */
    struct jvalue value;
    const struct jbuiltin *builtin; /* NULL: unknown, fails when it runs */
};

struct jinja {
    struct arena *arena;
    const struct jnode *body;
    const struct jstring **names; /* [n_names] */
    int n_names;
};

/* Names that the runtime itself sets. */
enum { NAME_LOOP, NAME_CALLER, NAME_VARARGS, NAME_KWARGS, NAME_SELF, NAME__N };
