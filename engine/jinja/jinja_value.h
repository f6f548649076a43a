/* The values of a running template and what Python would do with them: truth, equality, order,
 * printing. Everything lives in the run's arena; nothing is freed one by one. One run belongs to
 * one thread.
 *
 * Failure is sticky: jinja_fail notes the first reason in the run, and from then on functions
 * return harmless values; loops ask r->failure. That keeps a language's worth of small functions
 * readable. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/jinja/jinja.h"

struct arena;
struct jinja_run;
struct jnode;
struct jframe;

enum jtype {
    J_MISSING, /* no value at all: an argument that was not given */
    J_UNDEFINED,
    J_NONE,
    J_BOOL,
    J_INT,
    J_BIG, /* an integer beyond 64 bits, as its decimal digits: printed and compared, not computed
              with */
    J_FLOAT,
    J_STRING,
    J_BYTES,
    J_LIST,
    J_TUPLE,
    J_DICT,
    J_RANGE,
    J_ITERATOR, /* what generators give: can be walked once */
    J_VIEW,     /* dict.keys(), .values(), .items() */
    J_NAMESPACE,
    J_FUNCTION, /* a global such as range, or a macro's caller */
    J_METHOD,   /* "abc".upper before the call */
    J_MACRO,
    J_LOOP,
    J_CYCLER,
    J_JOINER,
    J_TEMPLATE, /* `self` */
    J__N
};

struct jvalue {
    uint8_t type;
    uint8_t aux;  /* J_FUNCTION: which; J_METHOD: which; J_VIEW, J_ITERATOR: kind */
    bool outside; /* scalars: came from outside */
    union {
        bool b;
        int64_t i;
        double f;
        struct jstring *s;
        struct jlist *l;
        struct jdict *d;
        struct jrange *range;
        struct jmethod *method;
        struct jmacro *macro;
        struct jloop *loop;
        struct jundefined *undefined;
        void *p;
    } as;
};

struct jstring {
    const char *data; /* `len` bytes of UTF-8, shared and never changed */
    const unsigned char
        *mark; /* [len] 1: this byte came from outside; NULL: `outside` holds for all */
    uint32_t len;
    uint32_t n_chars;
    bool outside;
    bool markup; /* went through `safe` or `escape` */
};

struct jlist {
    struct jvalue *at;
    uint32_t n, cap;
    uint32_t pos; /* J_ITERATOR: already walked */
    bool outside;
};

struct jentry {
    struct jvalue key, value;
    uint64_t hash;
};
struct jdict { /* in order of insertion */
    struct jentry *at;
    uint32_t n, cap;
    uint32_t *index; /* [n_index] place + 1, or 0; NULL while small */
    uint32_t n_index;
    bool outside;
};

struct jrange {
    int64_t start, stop, step;
};

struct jundefined { /* what the message will say when it is used */
    const struct jstring *name;
    uint8_t owner_type; /* J_MISSING: a variable; else an attribute of that type */
    bool unsafe;        /* hidden by the sandbox */
    const char *text;   /* a whole message instead */
};

#define JINJA_MAX_TEXT ((uint32_t)1 << 30)

/* Failing. The run keeps its first failure. */
void jinja_fail(struct jinja_run *r, enum jinja_outcome why, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
bool jinja_failed(const struct jinja_run *r);
/* Counts work of `bytes` bytes or `n` items against the step limit; false when it is used up. */
bool jinja_charge(struct jinja_run *r, uint64_t bytes);
bool jinja_step(struct jinja_run *r, uint64_t n);
/* Guards recursion; each true jinja_enter needs a jinja_leave. */
bool jinja_enter(struct jinja_run *r);
void jinja_leave(struct jinja_run *r);
void *jinja_alloc(struct jinja_run *r, size_t size);
const char *jinja_printf(struct jinja_run *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Making values. */
struct jvalue jinja_none(void);
struct jvalue jinja_bool(bool b);
struct jvalue jinja_int(int64_t i);
struct jvalue jinja_float(double f);
struct jvalue jinja_empty(void);
struct jvalue jinja_text(struct jinja_run *r, const char *data, size_t len); /* trusted, copied */
struct jvalue jinja_literal(struct jinja_run *r, const char *s); /* trusted, not copied */
struct jvalue jinja_borrow(struct jinja_run *r, const char *data, size_t len, bool outside);
struct jvalue jinja_list(struct jinja_run *r, enum jtype type, uint32_t room);
struct jvalue jinja_dict(struct jinja_run *r);
struct jvalue jinja_undefined(struct jinja_run *r, const struct jstring *name, enum jtype owner);
struct jvalue jinja_undefined_text(struct jinja_run *r, const char *text);
struct jvalue jinja_hidden(struct jinja_run *r, const struct jstring *name, enum jtype owner);

/* Lists and dicts. */
bool jinja_push(struct jinja_run *r, struct jvalue list, struct jvalue item);
bool jinja_dict_set(struct jinja_run *r, struct jdict *d, struct jvalue key, struct jvalue value);
struct jvalue *jinja_dict_get(struct jinja_run *r, const struct jdict *d, struct jvalue key);
struct jvalue *jinja_dict_find(const struct jdict *d, const char *key, size_t len);
bool jinja_dict_remove(struct jinja_run *r, struct jdict *d, struct jvalue key, struct jvalue *was);
uint64_t jinja_hash(struct jinja_run *r, struct jvalue v);

/* The properties of a value as Python defines them. */
const char *jinja_type_name(struct jvalue v); /* 'str', 'dict' ... */
bool jinja_true(struct jinja_run *r, struct jvalue v);
bool jinja_equal(struct jinja_run *r, struct jvalue a, struct jvalue b);
/* a < b; unordered types fail. */
bool jinja_less(struct jinja_run *r, struct jvalue a, struct jvalue b, const char *operator);
bool jinja_contains(struct jinja_run *r, struct jvalue container, struct jvalue item);
bool jinja_is_number(struct jvalue v); /* int, big, float, bool */
double jinja_double(struct jvalue v);
bool jinja_is_text(struct jvalue v, const char *s);
/* Length, or -1 where Python's len() fails (no failure is noted). */
int64_t jinja_length(struct jvalue v);
/* All items as a list value (a J_LIST that may be shared with the source: do not change it).
 * Fails with "'int' object is not iterable". An iterator is used up. */
struct jlist *jinja_items(struct jinja_run *r, struct jvalue v);
/* Raises Undefined's error and returns false when v is undefined. */
bool jinja_defined(struct jinja_run *r, struct jvalue v);
/* A failure of a wrong type: "<what>: <type>". */
struct jvalue jinja_type_error(struct jinja_run *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
