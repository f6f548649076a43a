/* One rendering under way: scopes, limits, where the output goes. Private to the jinja_*.c files.
 */
#pragma once
#include "engine/jinja/jinja_ast.h"
#include "engine/jinja/jinja_builder.h"
#include "engine/jinja/jinja_builtin.h"
#include "engine/jinja/jinja_text.h"
#include "engine/jinja/jinja_value.h"

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

struct jblock {
    struct jblock *next;
    void *memory;
};

struct jinja_run {
    const struct jinja *t;
    struct arena *arena;
    enum jinja_outcome failure; /* JINJA_DONE: none yet */
    struct err *e;
    uint64_t steps, step_limit;
    struct jblock *blocks; /* malloc's memory that long texts live in, freed after the run */
    size_t block_bytes, block_limit; /* limit 0: nothing is kept so, as in a parser's run */
    int depth;
    struct jbuilder *out;
    struct jframe *frame;   /* innermost scope; NULL: the root */
    struct jvalue *globals; /* [n_names] root scope, J_MISSING where not set */
    bool autoescape;
    struct tm now;
};

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
enum jflow jinja_for_flow(struct jinja_run *r, const struct jnode *n);
/* Assigns to a name, ns.attribute or a tuple of them. */
void jinja_assign_target(struct jinja_run *r, const struct jnode *target, struct jvalue v);
void jinja_output(struct jinja_run *r, struct jvalue v);
/* Runs a body with its own scope and catches its output. */
struct jvalue jinja_capture(struct jinja_run *r, const struct jnode *body);

struct jmacro {
    const struct jnode *node;
    struct jframe *frame; /* the scope it was made in */
};
struct jvalue jinja_make_macro(struct jinja_run *r, const struct jnode *n);
struct jvalue jinja_call_macro(struct jinja_run *r, const struct jmacro *m,
                               const struct jargs *args);

struct jloop {
    const struct jnode *node;
    struct jframe *outer;
    const struct jlist *items;
    uint32_t i;
    int depth0;
    struct jvalue changed; /* last values that loop.changed saw */
};
struct jvalue jinja_loop_attribute(struct jinja_run *r, struct jvalue loop,
                                   const struct jstring *name);

struct jmethod {
    struct jvalue self;
    const struct jbuiltin *builtin;
};

/* Attributes and items. */
struct jvalue jinja_getattr(struct jinja_run *r, struct jvalue o, const struct jstring *name);
struct jvalue jinja_getitem(struct jinja_run *r, struct jvalue o, struct jvalue key);
struct jvalue jinja_slice(struct jinja_run *r, struct jvalue o, struct jvalue start,
                          struct jvalue stop, struct jvalue step);
/* "a.b.0" as map(attribute=...) and sort(attribute=...) walk it; `otherwise` where it ends in
 * nothing. */
struct jvalue jinja_walk_path(struct jinja_run *r, struct jvalue v, struct jvalue path,
                              struct jvalue otherwise);

/* Operators. */
struct jvalue jinja_binary(struct jinja_run *r, enum joperator op, struct jvalue a,
                           struct jvalue b);
struct jvalue jinja_unary(struct jinja_run *r, enum joperator op, struct jvalue a);
bool jinja_compare(struct jinja_run *r, enum joperator op, struct jvalue a, struct jvalue b);
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
