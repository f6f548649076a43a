/* One rendering under way: scopes, limits, where the output goes. Private to the jinja_*.c files. */
#pragma once
#include "engine/text/jinja_ast.h"
#include "engine/text/jinja_builder.h"
#include "engine/text/jinja_value.h"

#define JINJA_MAX_DEPTH 1000
#define JINJA_MAX_RANGE 100000 /* as Jinja2's sandbox */

struct jbinding {
    int name;
    struct jvalue value;
};
struct jframe { /* one scope; the root one is indexed by name instead */
    struct jframe *parent;
    struct jbinding *at;
    uint32_t n, cap;
    bool captured; /* a macro was made in here: it must stay as it is */
};

struct jinja_run {
    const struct jinja *t;
    struct arena *arena;
    enum jinja_outcome failure; /* JINJA_DONE: none yet */
    struct err *e;
    uint64_t steps, step_limit;
    int depth;
    struct jbuilder *out;
    struct jframe *frame;   /* innermost scope; NULL: the root */
    struct jvalue *globals; /* [n_names] root scope, J_MISSING where not set */
    bool autoescape;
    struct tm now;
};

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

extern const struct jbuiltin jinja_filters_text[], jinja_filters_list[], jinja_filters_other[];
extern const struct jbuiltin jinja_tests[], jinja_string_methods[], jinja_string_checks[];
extern const struct jbuiltin jinja_container_methods[], jinja_globals_table[];
/* NULL when there is none. */
const struct jbuiltin *jinja_find_filter(const char *name, size_t len);
const struct jbuiltin *jinja_find_test(const char *name, size_t len);
const struct jbuiltin *jinja_find_builtin(const struct jbuiltin *table, const char *name, size_t len);
/* Binds args to the row's parameters and calls it. */
struct jvalue jinja_call_builtin(struct jinja_run *r, const struct jbuiltin *f, struct jvalue self,
                                 const struct jargs *args);

/* Parameters of a builtin: the value or a default; a wrong type fails. */
bool jinja_given(struct jvalue v);
int64_t jinja_want_int(struct jcall *c, int i, int64_t otherwise);
bool jinja_want_bool(struct jcall *c, int i, bool otherwise);
const struct jstring *jinja_want_string(struct jcall *c, int i, const char *otherwise);

/* Scopes. */
struct jvalue jinja_lookup(struct jinja_run *r, int name);
void jinja_assign(struct jinja_run *r, int name, struct jvalue v);
void jinja_push_frame(struct jinja_run *r, struct jframe *f);

/* Running. */
enum jflow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };
enum jflow jinja_exec(struct jinja_run *r, const struct jnode *body);
struct jvalue jinja_eval(struct jinja_run *r, const struct jnode *n);
struct jvalue jinja_eval_call(struct jinja_run *r, const struct jnode *n);
struct jvalue jinja_eval_filter(struct jinja_run *r, const struct jnode *n, struct jvalue in);
bool jinja_eval_args(struct jinja_run *r, const struct jnode *list, struct jargs *args);
struct jvalue jinja_call(struct jinja_run *r, struct jvalue f, const struct jargs *args);
struct jvalue jinja_for(struct jinja_run *r, const struct jnode *n, struct jvalue items, int depth0);
enum jflow jinja_for_flow(struct jinja_run *r, const struct jnode *n);
/* Assigns to a name, ns.attribute or a tuple of them. */
void jinja_assign_target(struct jinja_run *r, const struct jnode *target, struct jvalue v);
void jinja_output(struct jinja_run *r, struct jvalue v);
/* Runs a body with its own scope and catches its output. */
struct jvalue jinja_capture(struct jinja_run *r, const struct jnode *body);

struct jmacro {
    const struct jnode *node;
    struct jframe *frame; /* the scope it was made in */
    bool outside_caller;  /* it is the body of a call block */
};
struct jvalue jinja_make_macro(struct jinja_run *r, const struct jnode *n);
struct jvalue jinja_call_macro(struct jinja_run *r, const struct jmacro *m, const struct jargs *args);

struct jloop {
    const struct jnode *node;
    struct jframe *outer;
    const struct jlist *items;
    uint32_t i;
    int depth0;
    struct jvalue changed; /* last values that loop.changed saw */
};
struct jvalue jinja_loop_attribute(struct jinja_run *r, struct jvalue loop, const struct jstring *name);

struct jmethod {
    struct jvalue self;
    const struct jbuiltin *builtin;
};

/* Attributes and items. */
struct jvalue jinja_getattr(struct jinja_run *r, struct jvalue o, const struct jstring *name);
struct jvalue jinja_getitem(struct jinja_run *r, struct jvalue o, struct jvalue key);
struct jvalue jinja_slice(struct jinja_run *r, struct jvalue o, struct jvalue start, struct jvalue stop,
                          struct jvalue step);
/* "a.b.0" as map(attribute=...) and sort(attribute=...) walk it; `otherwise` where it ends in nothing. */
struct jvalue jinja_walk_path(struct jinja_run *r, struct jvalue v, struct jvalue path,
                              struct jvalue otherwise);

/* Operators. */
struct jvalue jinja_binary(struct jinja_run *r, enum joperator op, struct jvalue a, struct jvalue b);
struct jvalue jinja_unary(struct jinja_run *r, enum joperator op, struct jvalue a);
bool jinja_compare(struct jinja_run *r, enum joperator op, struct jvalue a, struct jvalue b);
/* "%s" % value and "{}".format(...). */
struct jvalue jinja_format_percent(struct jinja_run *r, const struct jstring *format, struct jvalue arg);
struct jvalue jinja_format_braces(struct jinja_run *r, const struct jstring *format,
                                  const struct jargs *args);

/* json.dumps as transformers calls it. */
struct jjson {
    bool ascii, sort_keys;
    int indent; /* -1: on one line */
    const struct jstring *item_separator, *key_separator;
};
bool jinja_put_json(struct jbuilder *b, const struct jjson *how, struct jvalue v);
/* A cJSON tree as a value; strings stay in the tree. */
struct jvalue jinja_from_json(struct jinja_run *r, const cJSON *v, bool outside, int depth);
struct jvalue jinja_messages_from_json(struct jinja_run *r, const cJSON *v);
/* An integer literal of any length. */
struct jvalue jinja_parse_int(struct jinja_run *r, const char *digits, size_t len);

/* Sorting with Python's order, stable. `keys` [n] decide, `items` [n] move along. */
bool jinja_sort(struct jinja_run *r, struct jvalue *items, struct jvalue *keys, uint32_t n, unsigned flags);
enum { SORT_REVERSE = 1, SORT_UNDEFINED = 2 /* undefined keys are equal, not an error */ };
/* Case-folded for text, as filters compare when case_sensitive is false. */
struct jvalue jinja_fold_case(struct jinja_run *r, struct jvalue v);
struct jvalue jinja_change_case(struct jinja_run *r, const struct jstring *s, int how);
enum { CASE_LOWER, CASE_UPPER, CASE_TITLE, CASE_CAPITAL, CASE_SWAP, CASE_FOLD };
bool jinja_is_space(uint32_t code); /* as str.isspace: with U+001C..1F */
struct jvalue jinja_strip(struct jinja_run *r, const struct jstring *s, const struct jstring *chars, int sides);
enum { STRIP_LEFT = 1, STRIP_RIGHT = 2 };
struct jvalue jinja_replace(struct jinja_run *r, const struct jstring *s, const struct jstring *from,
                            const struct jstring *to, int64_t max);
