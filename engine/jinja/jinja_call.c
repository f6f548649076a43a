/* Calls: macros, built-in functions and methods, loops (which recursive templates call, too). */
#include <string.h>

#include "engine/jinja/jinja_run.h"

/* ---- built-ins */

bool jinja_given(struct jvalue v)
{
    return v.type != J_MISSING;
}

int64_t jinja_want_int(struct jcall *c, int i, int64_t otherwise)
{
    struct jvalue v = c->p[i];
    if (v.type == J_MISSING)
        return otherwise;
    if (v.type == J_INT)
        return v.as.i;
    if (v.type == J_BOOL)
        return v.as.b;
    if (jinja_defined(c->r, v))
        jinja_type_error(c->r, "'%s' object cannot be interpreted as an integer",
                         jinja_type_name(v));
    return otherwise;
}

bool jinja_want_bool(struct jcall *c, int i, bool otherwise)
{
    return c->p[i].type == J_MISSING ? otherwise : jinja_true(c->r, c->p[i]);
}

const struct jstring *jinja_want_string(struct jcall *c, int i, const char *otherwise)
{
    struct jvalue v = c->p[i];
    if (v.type == J_STRING)
        return v.as.s;
    if (v.type != J_MISSING && jinja_defined(c->r, v))
        jinja_type_error(c->r, "a string is needed, not '%s'", jinja_type_name(v));
    return jinja_literal(c->r, otherwise ? otherwise : "").as.s;
}

const struct jbuiltin *jinja_find_builtin(const struct jbuiltin *table, const char *name,
                                          size_t len)
{
    for (; table->name; table++)
        if (strlen(table->name) == len && !memcmp(table->name, name, len))
            return table;
    return NULL;
}

const struct jbuiltin *jinja_find_filter(const char *name, size_t len)
{
    const struct jbuiltin *const tables[] = {jinja_filters_text, jinja_filters_number,
                                             jinja_filters_list, jinja_filters_order,
                                             jinja_filters_other};
    const struct jbuiltin *f = NULL;
    for (size_t i = 0; !f && i < sizeof tables / sizeof *tables; i++)
        f = jinja_find_builtin(tables[i], name, len);
    return f;
}

const struct jbuiltin *jinja_find_test(const char *name, size_t len)
{
    return jinja_find_builtin(jinja_tests, name, len);
}

/* Place of a parameter's name in "a!,b,c" ("!": it must be given), or -1; counts them all when name
 * is NULL. */
static int find_param(const char *params, const struct jstring *name)
{
    int i = 0;
    for (const char *s = params; *s; i++) {
        size_t n = strcspn(s, ",!"), end = strcspn(s, ",");
        if (name && name->len == n && !memcmp(name->data, s, n))
            return i;
        s += end + (s[end] == ',');
    }
    return name ? -1 : i;
}

struct jvalue jinja_call_builtin(struct jinja_run *r, const struct jbuiltin *f, struct jvalue self,
                                 const struct jargs *args)
{
    struct jcall c = {.r = r, .self = self, .args = args, .op = f->op};
    if (strcmp(f->params, "*")) {
        int n = find_param(f->params, NULL);
        if (args->n > n)
            return jinja_type_error(r, "%s() takes at most %d arguments (%d given)", f->name, n,
                                    args->n);
        for (int i = 0; i < args->n; i++)
            c.p[i] = args->at[i];
        for (int i = 0; i < args->n_keyword; i++) {
            const struct jstring *name = args->keyword[i].name.as.s;
            int at = find_param(f->params, name);
            if (at < 0 || c.p[at].type != J_MISSING)
                return jinja_type_error(r,
                                        at < 0 ? "%s() got an unexpected keyword argument '%.*s'"
                                               : "%s() got multiple values for argument '%.*s'",
                                        f->name, (int)(name->len < 60 ? name->len : 60),
                                        name->data);
            c.p[at] = args->keyword[i].value;
        }
        int i = 0;
        for (const char *s = f->params; *s; s += strcspn(s, ","), s += *s == ',')
            if (s[strcspn(s, ",!")] == '!' && c.p[i++].type == J_MISSING)
                return jinja_type_error(r, "%s() is missing an argument", f->name);
    }
    if (!jinja_enter(r))
        return jinja_none();
    struct jvalue v = f->run(&c);
    jinja_leave(r);
    return v;
}

/* ---- macros */

struct jvalue jinja_make_macro(struct jinja_run *r, const struct jnode *n)
{
    struct jmacro *m = jinja_alloc(r, sizeof *m);
    if (!m)
        return jinja_none();
    *m = (struct jmacro){.node = n, .frame = r->frame};
    for (struct jframe *f = r->frame; f && !f->captured; f = f->parent)
        f->captured = true;
    return (struct jvalue){.type = J_MACRO, .as.macro = m};
}

/* The keyword argument of this name, taken out of `rest`. */
static bool take_keyword(struct jargs *rest, const struct jstring *name, struct jvalue *v)
{
    for (int i = 0; i < rest->n_keyword; i++) {
        const struct jstring *k = rest->keyword[i].name.as.s;
        if (k->len == name->len && !memcmp(k->data, name->data, k->len)) {
            *v = rest->keyword[i].value;
            memmove(&rest->keyword[i], &rest->keyword[i + 1],
                    (size_t)(rest->n_keyword - i - 1) * sizeof *rest->keyword);
            rest->n_keyword--;
            return true;
        }
    }
    return false;
}

/* Parameters and defaults into the macro's own scope, which is current. */
static int bind_parameters(struct jinja_run *r, const struct jnode *node, struct jargs *rest)
{
    int i = 0;
    for (const struct jnode *p = node->other; p && !jinja_failed(r); p = p->next, i++) {
        struct jvalue v;
        const struct jstring *name = r->t->names[p->name];
        if (i < rest->n)
            v = rest->at[i];
        else if (!take_keyword(rest, name, &v))
            v = p->a ? jinja_eval(r, p->a)
                     : jinja_undefined_text(
                           r, jinja_printf(r, "parameter '%.100s' was not provided", name->data));
        jinja_assign(r, p->name, v);
    }
    return i;
}

static void bind_rest(struct jinja_run *r, const struct jnode *node, struct jargs *rest,
                      int n_params)
{
    const char *name = r->t->names[node->name]->data;
    struct jvalue v;
    if (node->flags & MACRO_CALLER) {
        if (!take_keyword(rest, r->t->names[NAME_CALLER], &v))
            v = jinja_undefined_text(r, "No caller defined");
        jinja_assign(r, NAME_CALLER, v);
    }
    if (node->flags & MACRO_KWARGS) {
        v = jinja_dict(r);
        for (int i = 0; i < rest->n_keyword && !jinja_failed(r); i++)
            jinja_dict_set(r, v.as.d, rest->keyword[i].name, rest->keyword[i].value);
        jinja_assign(r, NAME_KWARGS, v);
    } else if (rest->n_keyword) {
        jinja_type_error(r, "macro '%.60s' takes no keyword argument '%.60s'", name,
                         rest->keyword[0].name.as.s->data);
    }
    if (node->flags & MACRO_VARARGS) {
        v = jinja_list(r, J_TUPLE, 0);
        for (int i = n_params; i < rest->n; i++)
            jinja_push(r, v, rest->at[i]);
        jinja_assign(r, NAME_VARARGS, v);
    } else if (rest->n > n_params) {
        jinja_type_error(r, "macro '%.60s' takes not more than %d argument(s)", name, n_params);
    }
}

struct jvalue jinja_call_macro(struct jinja_run *r, const struct jmacro *m,
                               const struct jargs *args)
{
    struct jframe *caller = r->frame, *f = jinja_alloc(r, sizeof *f);
    struct jargs rest = *args;
    struct jvalue v = jinja_empty();
    if (!f || !jinja_enter(r))
        return v;
    f->parent = m->frame;
    r->frame = f;
    int n = bind_parameters(r, m->node, &rest);
    bind_rest(r, m->node, &rest, n);
    if (!jinja_failed(r)) {
        struct jbuilder b, *out = r->out;
        jinja_builder_init(&b, r);
        r->out = &b;
        jinja_exec(r, m->node->list);
        r->out = out;
        v = jinja_builder_take(&b);
        if (r->autoescape && !jinja_failed(r))
            v.as.s->markup = true;
    }
    r->frame = caller;
    jinja_leave(r);
    return v;
}

/* ---- loops */

static void set_loop(struct jinja_run *r, struct jframe *f, struct jloop *loop)
{
    f->parent = loop->outer;
    r->frame = f;
    jinja_assign(r, NAME_LOOP, (struct jvalue){.type = J_LOOP, .as.loop = loop});
    jinja_assign_target(r, loop->node->a, loop->items->at[loop->i]);
}

/* The items that pass the loop's own `if`. */
static struct jlist *filter_items(struct jinja_run *r, const struct jnode *n, struct jlist *all)
{
    struct jvalue kept = jinja_list(r, J_LIST, all->n);
    struct jframe *outer = r->frame, *f = jinja_alloc(r, sizeof *f);
    for (uint32_t i = 0; f && i < all->n && jinja_step(r, 1); i++) {
        if (!f->captured)
            f->n = 0;
        f->parent = outer;
        r->frame = f;
        jinja_assign_target(r, n->a, all->at[i]);
        if (jinja_true(r, jinja_eval(r, n->c)))
            jinja_push(r, kept, all->at[i]);
        r->frame = outer;
    }
    return jinja_failed(r) ? NULL : kept.as.l;
}

static enum jflow run_loop(struct jinja_run *r, const struct jnode *n, struct jvalue over,
                           int depth0)
{
    struct jframe *outer = r->frame, *f = NULL;
    struct jlist *items = jinja_items(r, over);
    struct jloop *loop = jinja_alloc(r, sizeof *loop);
    enum jflow flow = FLOW_NEXT;
    if (items && n->c)
        items = filter_items(r, n, items);
    if (!items || !loop)
        return flow;
    *loop = (struct jloop){.node = n, .outer = outer, .items = items, .depth0 = depth0};
    for (; loop->i < items->n && jinja_step(r, 1); loop->i++) {
        if (!f || f->captured) {
            if (!(f = jinja_alloc(r, sizeof *f)))
                break;
        }
        f->n = 0;
        set_loop(r, f, loop);
        flow = jinja_exec(r, n->list);
        r->frame = outer;
        if (flow == FLOW_BREAK)
            break;
    }
    r->frame = outer;
    if (items->n == 0 && n->other && !jinja_failed(r)) {
        if (!(f = jinja_alloc(r, sizeof *f)))
            return FLOW_NEXT;
        jinja_push_frame(r, f);
        flow = jinja_exec(r, n->other); /* a break here belongs to the loop around */
        r->frame = outer;
        return flow;
    }
    return FLOW_NEXT;
}

enum jflow jinja_for_flow(struct jinja_run *r, const struct jnode *n)
{
    struct jvalue over = jinja_eval(r, n->b);
    return jinja_failed(r) ? FLOW_NEXT : run_loop(r, n, over, 0);
}

/* loop(children): the loop's body again, one level deeper, as text. */
static struct jvalue call_loop(struct jinja_run *r, const struct jloop *loop,
                               const struct jargs *args)
{
    if (!(loop->node->flags & FOR_RECURSIVE))
        return jinja_type_error(
            r, "The loop must have the 'recursive' marker to be called recursively.");
    if (args->n != 1 || args->n_keyword)
        return jinja_type_error(r, "loop() takes one argument");
    struct jbuilder b, *out = r->out;
    struct jframe *frame = r->frame;
    jinja_builder_init(&b, r);
    r->out = &b;
    r->frame = loop->outer;
    run_loop(r, loop->node, args->at[0], loop->depth0 + 1);
    r->frame = frame;
    r->out = out;
    return jinja_builder_take(&b);
}

/* ---- anything */

struct jvalue jinja_call(struct jinja_run *r, struct jvalue f, const struct jargs *args)
{
    if (jinja_failed(r) || !jinja_defined(r, f))
        return jinja_none();
    switch (f.type) {
    case J_MACRO:
        return jinja_call_macro(r, f.as.macro, args);
    case J_FUNCTION:
        return jinja_call_builtin(r, f.as.p, jinja_none(), args);
    case J_METHOD:
        return jinja_call_builtin(r, f.as.method->builtin, f.as.method->self, args);
    case J_LOOP:
        return call_loop(r, f.as.loop, args);
    case J_JOINER: { /* nothing the first time, its separator from then on */
        struct jlist *l = f.as.l;
        return l->pos++ ? l->at[0] : jinja_literal(r, "");
    }
    default:
        return jinja_type_error(r, "'%s' object is not callable", jinja_type_name(f));
    }
}
