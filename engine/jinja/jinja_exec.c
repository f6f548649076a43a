/* Executes statements: output, conditions, loops, assignments, and blocks with a scope of their
 * own. */
#include <string.h>

#include "engine/jinja/jinja_run.h"

void jinja_output(struct jinja_run *r, struct jvalue v)
{
    if (jinja_failed(r))
        return;
    if (r->autoescape)
        v = jinja_escape(r, v);
    jinja_put_str(r->out, v);
}

struct jvalue jinja_capture(struct jinja_run *r, const struct jnode *body)
{
    struct jbuilder b, *outer = r->out;
    struct jframe *f = jinja_alloc(r, sizeof *f);
    if (!f)
        return jinja_empty();
    jinja_builder_init(&b, r);
    r->out = &b;
    jinja_push_frame(r, f);
    jinja_exec(r, body);
    r->frame = f->parent;
    r->out = outer;
    struct jvalue v = jinja_builder_take(&b);
    if (r->autoescape && !jinja_failed(r))
        v.as.s->markup = true;
    return v;
}

void jinja_assign_target(struct jinja_run *r, const struct jnode *target, struct jvalue v)
{
    if (jinja_failed(r))
        return;
    if (target->kind == N_NAME) {
        jinja_assign(r, target->name, v);
        return;
    }
    if (target->kind == N_NSREF) {
        struct jvalue ns = jinja_lookup(r, target->name);
        if (ns.type != J_NAMESPACE)
            jinja_type_error(r, "cannot assign attribute on non-namespace object");
        else if (target->value.as.s->data[0] == '_')
            jinja_fail(r, JINJA_SECURITY, "underscore-prefixed namespace attribute '%s'",
                       target->value.as.s->data);
        else
            jinja_dict_set(r, ns.as.d, target->value, v);
        return;
    }
    struct jlist *l = jinja_items(r, v);
    uint32_t n = 0;
    for (const struct jnode *t = target->list; l && t; t = t->next)
        n++;
    if (l && l->n != n) {
        jinja_type_error(r,
                         l->n < n ? "not enough values to unpack (expected %u, got %u)"
                                  : "too many values to unpack (expected %u, got %u)",
                         n, l->n);
        return;
    }
    n = 0;
    for (const struct jnode *t = target->list; l && t; t = t->next)
        jinja_assign_target(r, t, l->at[n++]);
}

static void exec_set_block(struct jinja_run *r, const struct jnode *n)
{
    struct jvalue v = jinja_capture(r, n->list);
    if (n->b && !jinja_failed(r))
        v = jinja_eval_filter(r, n->b, v);
    jinja_assign_target(r, n->a, v);
}

static void exec_filter_block(struct jinja_run *r, const struct jnode *n)
{
    struct jvalue v = jinja_capture(r, n->list);
    if (!jinja_failed(r))
        jinja_output(r, jinja_eval_filter(r, n->b, v));
}

/* A body in its own scope, writing to the same output. */
static enum jflow exec_scope(struct jinja_run *r, const struct jnode *body)
{
    struct jframe *f = jinja_alloc(r, sizeof *f);
    if (!f)
        return FLOW_NEXT;
    jinja_push_frame(r, f);
    enum jflow flow = jinja_exec(r, body);
    r->frame = f->parent;
    return flow;
}

static enum jflow exec_with(struct jinja_run *r, const struct jnode *n)
{
    struct jframe *f = jinja_alloc(r, sizeof *f);
    struct jframe *outer = r->frame;
    if (!f)
        return FLOW_NEXT;
    f->parent = outer;
    for (const struct jnode *s = n->other; s && !jinja_failed(r); s = s->next) {
        struct jvalue v = jinja_eval(r, s->b); /* values see the scope outside */
        r->frame = f;
        jinja_assign_target(r, s->a, v);
        r->frame = outer;
    }
    r->frame = f;
    enum jflow flow = jinja_exec(r, n->list);
    r->frame = outer;
    return flow;
}

static void exec_call_block(struct jinja_run *r, const struct jnode *n)
{
    struct jvalue f = jinja_eval(r, n->a->a);
    struct jargs args;
    if (jinja_failed(r) || !jinja_eval_args(r, n->a->list, &args))
        return;
    struct jkeyword *k = jinja_alloc(r, ((size_t)args.n_keyword + 1) * sizeof *k);
    if (!k)
        return;
    if (args.n_keyword)
        memcpy(k, args.keyword, (size_t)args.n_keyword * sizeof *k);
    k[args.n_keyword] = (struct jkeyword){
        .name = {.type = J_STRING, .as.s = (struct jstring *)r->t->names[NAME_CALLER]},
        .value = jinja_make_macro(r, n->b)};
    args.keyword = k;
    args.n_keyword++;
    jinja_output(r, jinja_call(r, f, &args));
}

static enum jflow exec_autoescape(struct jinja_run *r, const struct jnode *n)
{
    bool outer = r->autoescape;
    r->autoescape = jinja_true(r, jinja_eval(r, n->a));
    enum jflow flow = exec_scope(r, n->list);
    r->autoescape = outer;
    return flow;
}

static enum jflow exec_if(struct jinja_run *r, const struct jnode *n)
{
    for (;;) { /* elif by elif */
        bool yes = jinja_true(r, jinja_eval(r, n->a));
        if (jinja_failed(r))
            return FLOW_NEXT;
        if (yes)
            return jinja_exec(r, n->list);
        if (!n->other)
            return FLOW_NEXT;
        if (n->other->kind != N_IF || n->other->next)
            return jinja_exec(r, n->other);
        n = n->other;
    }
}

static enum jflow exec_node(struct jinja_run *r, const struct jnode *n)
{
    switch (n->kind) {
    case N_IF:
        return exec_if(r, n);
    case N_FOR:
        return jinja_for_flow(r, n);
    case N_SET:
        jinja_assign_target(r, n->a, jinja_eval(r, n->b));
        break;
    case N_SET_BLOCK:
        exec_set_block(r, n);
        break;
    case N_WITH:
        return exec_with(r, n);
    case N_MACRO:
        jinja_assign(r, n->name, jinja_make_macro(r, n));
        break;
    case N_CALL_BLOCK:
        exec_call_block(r, n);
        break;
    case N_FILTER_BLOCK:
        exec_filter_block(r, n);
        break;
    case N_SCOPE:
        return exec_scope(r, n->list);
    case N_AUTOESCAPE:
        return exec_autoescape(r, n);
    case N_BREAK:
        return FLOW_BREAK;
    case N_CONTINUE:
        return FLOW_CONTINUE;
    default:
        jinja_type_error(r, "%s", n->value.as.s->data);
        break;
    }
    return FLOW_NEXT;
}

enum jflow jinja_exec(struct jinja_run *r, const struct jnode *body)
{
    enum jflow flow = FLOW_NEXT;
    if (!jinja_enter(r))
        return flow;
    for (const struct jnode *n = body; n && flow == FLOW_NEXT && jinja_step(r, 1); n = n->next)
        if (n->kind == N_TEXT)
            jinja_put_string(r->out, n->value.as.s);
        else if (n->kind == N_OUTPUT)
            jinja_output(r, jinja_eval(r, n->list));
        else
            flow = exec_node(r, n);
    jinja_leave(r);
    return flow;
}
