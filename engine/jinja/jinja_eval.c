/* Evaluates expressions: names by scope, literals, operators, comparisons, conditions, filters and
 * tests. */
#include <string.h>

#include "engine/jinja/jinja_run.h"

/* ---- scopes */

void jinja_push_frame(struct jinja_run *r, struct jframe *f)
{
    f->parent = r->frame;
    r->frame = f;
}

struct jvalue jinja_lookup(struct jinja_run *r, int name)
{
    for (const struct jframe *f = r->frame; f; f = f->parent)
        for (uint32_t i = 0; i < f->n; i++)
            if (f->at[i].name == name)
                return f->at[i].value;
    struct jvalue v = r->globals[name];
    return v.type != J_MISSING ? v : jinja_undefined(r, r->t->names[name], J_MISSING);
}

void jinja_assign(struct jinja_run *r, int name, struct jvalue v)
{
    struct jframe *f = r->frame;
    if (!f) {
        r->globals[name] = v;
        return;
    }
    for (uint32_t i = 0; i < f->n; i++)
        if (f->at[i].name == name) {
            f->at[i].value = v;
            return;
        }
    if (f->n == f->cap) {
        uint32_t cap = f->cap ? f->cap * 2 : 4;
        struct jbinding *at = jinja_alloc(r, cap * sizeof *at);
        if (!at)
            return;
        if (f->n)
            memcpy(at, f->at, f->n * sizeof *at);
        f->at = at;
        f->cap = cap;
    }
    f->at[f->n++] = (struct jbinding){.name = name, .value = v};
}

/* ---- calls */

static bool spread(struct jinja_run *r, struct jargs *args, int *cap, struct jvalue items)
{
    struct jlist *l = jinja_items(r, items);
    if (!l || !jinja_step(r, l->n))
        return false;
    if (args->n + (int64_t)l->n > *cap) {
        *cap = args->n + (int)l->n + 8;
        struct jvalue *at = jinja_alloc(r, (size_t)*cap * sizeof *at);
        if (!at)
            return false;
        if (args->n)
            memcpy(at, args->at, (size_t)args->n * sizeof *at);
        args->at = at;
    }
    if (l->n)
        memcpy(args->at + args->n, l->at, l->n * sizeof *l->at);
    args->n += (int)l->n;
    return true;
}

static bool add_keywords(struct jinja_run *r, struct jargs *args, const struct jdict *d)
{
    struct jkeyword *k = jinja_alloc(r, ((size_t)args->n_keyword + d->n) * sizeof *k);
    if (!k)
        return false;
    if (args->n_keyword)
        memcpy(k, args->keyword, (size_t)args->n_keyword * sizeof *k);
    args->keyword = k;
    for (uint32_t i = 0; i < d->n; i++) {
        if (d->at[i].key.type != J_STRING) {
            jinja_type_error(r, "keywords must be strings");
            return false;
        }
        k[args->n_keyword++] = (struct jkeyword){.name = d->at[i].key, .value = d->at[i].value};
    }
    return true;
}

bool jinja_eval_args(struct jinja_run *r, const struct jnode *list, struct jargs *args)
{
    int n = 0, cap;
    *args = (struct jargs){0};
    for (const struct jnode *a = list; a; a = a->next)
        n++;
    if (n == 0)
        return true;
    cap = n;
    args->at = jinja_alloc(r, (size_t)n * sizeof *args->at);
    args->keyword = jinja_alloc(r, (size_t)n * sizeof *args->keyword);
    if (!args->at || !args->keyword)
        return false;
    for (const struct jnode *a = list; a; a = a->next) {
        struct jvalue v = jinja_eval(r, a->a);
        if (jinja_failed(r))
            return false;
        if (a->flags == ARG_STAR) {
            if (!spread(r, args, &cap, v))
                return false;
        } else if (a->flags == ARG_STARSTAR) {
            if (v.type != J_DICT) {
                jinja_type_error(r, "argument after ** must be a mapping, not %s",
                                 jinja_type_name(v));
                return false;
            }
            if (!add_keywords(r, args, v.as.d))
                return false;
        } else if (a->name >= 0) {
            struct jvalue name = {.type = J_STRING, .as.s = (struct jstring *)r->t->names[a->name]};
            args->keyword[args->n_keyword++] = (struct jkeyword){.name = name, .value = v};
        } else {
            args->at[args->n++] = v;
        }
    }
    return true;
}

struct jvalue jinja_eval_call(struct jinja_run *r, const struct jnode *n)
{
    struct jvalue f = jinja_eval(r, n->a);
    struct jargs args;
    if (jinja_failed(r) || !jinja_eval_args(r, n->list, &args))
        return jinja_none();
    return jinja_call(r, f, &args);
}

struct jvalue jinja_eval_filter(struct jinja_run *r, const struct jnode *n, struct jvalue in)
{
    struct jargs args;
    if (n->a)
        in = jinja_eval_filter(r, n->a, in); /* a block's chain of filters: the innermost first */
    if (!n->builtin)
        return jinja_type_error(r, "No filter named '%s'.", r->t->names[n->name]->data);
    if (jinja_failed(r) || !jinja_eval_args(r, n->list, &args))
        return jinja_none();
    return jinja_call_builtin(r, n->builtin, in, &args);
}

static struct jvalue eval_filter(struct jinja_run *r, const struct jnode *n)
{
    struct jargs args;
    if (!n->builtin)
        return jinja_type_error(r, "No filter named '%s'.", r->t->names[n->name]->data);
    struct jvalue in = jinja_eval(r, n->a);
    if (jinja_failed(r) || !jinja_eval_args(r, n->list, &args))
        return jinja_none();
    return jinja_call_builtin(r, n->builtin, in, &args);
}

/* ---- the rest */

static struct jvalue eval_concat(struct jinja_run *r, const struct jnode *n)
{
    struct jbuilder b;
    jinja_builder_init(&b, r);
    for (const struct jnode *i = n->list; i && !jinja_failed(r); i = i->next)
        jinja_put_str(&b, jinja_eval(r, i));
    return jinja_builder_take(&b);
}

static struct jvalue eval_compare(struct jinja_run *r, const struct jnode *n)
{
    struct jvalue left = jinja_eval(r, n->a);
    for (const struct jnode *i = n->list; i && !jinja_failed(r); i = i->next) {
        struct jvalue right = jinja_eval(r, i->a);
        if (jinja_failed(r) || !jinja_compare(r, i->op, left, right))
            return jinja_bool(false);
        left = right;
    }
    return jinja_bool(true);
}

static struct jvalue eval_sequence(struct jinja_run *r, const struct jnode *n, enum jtype type)
{
    struct jvalue list = jinja_list(r, type, 0);
    for (const struct jnode *i = n->list; i && !jinja_failed(r); i = i->next)
        jinja_push(r, list, jinja_eval(r, i));
    return list;
}

static struct jvalue eval_dict(struct jinja_run *r, const struct jnode *n)
{
    struct jvalue dict = jinja_dict(r);
    for (const struct jnode *i = n->list; i && !jinja_failed(r); i = i->next) {
        struct jvalue key = jinja_eval(r, i->a), value = jinja_eval(r, i->b);
        if (!jinja_failed(r))
            jinja_dict_set(r, dict.as.d, key, value);
    }
    return dict;
}

static struct jvalue eval_getitem(struct jinja_run *r, const struct jnode *n)
{
    struct jvalue of = jinja_eval(r, n->a);
    if (n->b->kind != N_SLICE) {
        struct jvalue key = jinja_eval(r, n->b);
        return jinja_failed(r) ? jinja_none() : jinja_getitem(r, of, key);
    }
    struct jvalue part[3];
    const struct jnode *node[3] = {n->b->a, n->b->b, n->b->c};
    for (int i = 0; i < 3; i++)
        part[i] = node[i] ? jinja_eval(r, node[i]) : jinja_none();
    return jinja_failed(r) ? jinja_none() : jinja_slice(r, of, part[0], part[1], part[2]);
}

static struct jvalue eval_condition(struct jinja_run *r, const struct jnode *n)
{
    bool yes = jinja_true(r, jinja_eval(r, n->a));
    if (jinja_failed(r))
        return jinja_none();
    if (yes)
        return jinja_eval(r, n->b);
    if (n->c)
        return jinja_eval(r, n->c);
    return jinja_undefined_text(
        r, jinja_printf(r,
                        "the inline if-expression on line %d evaluated to false"
                        " and no else section was defined.",
                        n->line));
}

static struct jvalue eval_test(struct jinja_run *r, const struct jnode *n)
{
    struct jargs args;
    if (!n->builtin)
        return jinja_type_error(r, "No test named '%s'.", r->t->names[n->name]->data);
    struct jvalue in = jinja_eval(r, n->a);
    if (jinja_failed(r) || !jinja_eval_args(r, n->list, &args))
        return jinja_none();
    return jinja_call_builtin(r, n->builtin, in, &args);
}

static struct jvalue eval_node(struct jinja_run *r, const struct jnode *n)
{
    switch (n->kind) {
    case N_GETATTR: {
        struct jvalue of = jinja_eval(r, n->a);
        return jinja_failed(r) ? of : jinja_getattr(r, of, n->value.as.s);
    }
    case N_GETITEM:
        return eval_getitem(r, n);
    case N_CALL:
        return jinja_eval_call(r, n);
    case N_FILTER:
        return eval_filter(r, n);
    case N_TEST:
        return eval_test(r, n);
    case N_NOT:
        return jinja_bool(!jinja_true(r, jinja_eval(r, n->a)));
    case N_UNARY:
        return jinja_unary(r, n->op, jinja_eval(r, n->a));
    case N_BINARY: {
        struct jvalue a = jinja_eval(r, n->a), b = jinja_eval(r, n->b);
        return jinja_failed(r) ? jinja_none() : jinja_binary(r, n->op, a, b);
    }
    case N_CONCAT:
        return eval_concat(r, n);
    case N_COMPARE:
        return eval_compare(r, n);
    case N_AND: {
        struct jvalue a = jinja_eval(r, n->a);
        return jinja_true(r, a) ? jinja_eval(r, n->b) : a;
    }
    case N_OR: {
        struct jvalue a = jinja_eval(r, n->a);
        return jinja_true(r, a) ? a : jinja_eval(r, n->b);
    }
    case N_COND:
        return eval_condition(r, n);
    case N_LIST:
        return eval_sequence(r, n, J_LIST);
    case N_TUPLE:
        return eval_sequence(r, n, J_TUPLE);
    default:
        return eval_dict(r, n);
    }
}

struct jvalue jinja_eval(struct jinja_run *r, const struct jnode *n)
{
    if (!jinja_step(r, 1))
        return jinja_none();
    if (n->kind == N_CONST)
        return n->value;
    if (n->kind == N_NAME)
        return jinja_lookup(r, n->name);
    if (!jinja_enter(r))
        return jinja_none();
    struct jvalue v = eval_node(r, n);
    jinja_leave(r);
    return v;
}
