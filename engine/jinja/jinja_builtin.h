/* Filters, tests, methods and functions that are built in: tables of rows, found by name, called
 * with their arguments bound to the parameters that the row declares. Private to the jinja_*.c
 * files. */
#pragma once
#include "engine/jinja/jinja_value.h"

struct jargs { /* of a call, evaluated */
    struct jvalue *at;
    int n;
    struct jkeyword {
        struct jvalue name; /* J_STRING */
        struct jvalue value;
    } *keyword;
    int n_keyword;
};

/* A filter, test, method or function that is built in. */
#define JINJA_MAX_PARAMS 6
struct jcall {
    struct jinja_run *r;
    struct jvalue self;                /* the filtered value, the method's object */
    struct jvalue p[JINJA_MAX_PARAMS]; /* as declared; J_MISSING where not given */
    const struct jargs *args;          /* all of them, for "*" */
    int op;                            /* the row's own number */
};
struct jbuiltin {
    const char *name;
    const char *params; /* "sep,maxsplit"; "*": takes anything and reads args itself */
    struct jvalue (*run)(struct jcall *c);
    int op;
};

extern const struct jbuiltin jinja_filters_text[], jinja_filters_number[];
extern const struct jbuiltin jinja_filters_list[], jinja_filters_order[], jinja_filters_other[];
extern const struct jbuiltin jinja_tests[], jinja_string_methods[], jinja_string_checks[];
extern const struct jbuiltin jinja_container_methods[], jinja_globals_table[];
/* NULL when there is none. */
const struct jbuiltin *jinja_find_filter(const char *name, size_t len);
const struct jbuiltin *jinja_find_test(const char *name, size_t len);
const struct jbuiltin *jinja_find_builtin(const struct jbuiltin *table, const char *name,
                                          size_t len);
/* Binds args to the row's parameters and calls it. */
struct jvalue jinja_call_builtin(struct jinja_run *r, const struct jbuiltin *f, struct jvalue self,
                                 const struct jargs *args);

/* Parameters of a builtin: the value or a default; a wrong type fails. */
bool jinja_given(struct jvalue v);
int64_t jinja_want_int(struct jcall *c, int i, int64_t otherwise);
bool jinja_want_bool(struct jcall *c, int i, bool otherwise);
const struct jstring *jinja_want_string(struct jcall *c, int i, const char *otherwise);
