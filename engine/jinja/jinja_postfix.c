/* Parses what stands behind a value in an expression: attributes, subscripts, calls, filters and
 * tests. */
#include "engine/jinja/jinja_parse.h"

static struct jnode *parse_arguments(struct jparser *p)
{
    struct jnode *first = NULL, **tail = &first;
    bool keywords = false, comma = false;
    if (!jinja_expect(p, T_OPERATOR, "("))
        return NULL;
    struct jnode *holder = jinja_node(p, N_LIST);
    while (holder && !jinja_is(p, T_OPERATOR, ")")) {
        if (comma && !jinja_expect(p, T_OPERATOR, ","))
            return NULL;
        if (jinja_is(p, T_OPERATOR, ")"))
            break;
        struct jnode *arg = jinja_node(p, N_TUPLE);
        if (!arg)
            return NULL;
        if (jinja_accept(p, T_OPERATOR, "*")) {
            arg->flags = ARG_STAR;
        } else if (jinja_accept(p, T_OPERATOR, "**")) {
            arg->flags = ARG_STARSTAR;
            keywords = true;
        } else if (p->at->type == T_NAME && p->at[1].type == T_OPERATOR && p->at[1].len == 1 &&
                   p->at[1].text[0] == '=') {
            arg->name = jinja_name(p, p->at->text, p->at->len);
            p->at += 2;
            keywords = true;
        } else if (keywords) {
            return jinja_syntax(p, "invalid syntax for function call expression");
        }
        if (!(arg->a = jinja_parse_expression(p, true)))
            return NULL;
        *tail = arg;
        tail = &arg->next;
        comma = true;
    }
    if (!holder || !jinja_expect(p, T_OPERATOR, ")"))
        return NULL;
    holder->list = first;
    return holder;
}

static struct jnode *parse_call(struct jparser *p, struct jnode *f)
{
    struct jnode *n = jinja_node(p, N_CALL), *args = parse_arguments(p);
    if (!n || !args)
        return NULL;
    n->a = f;
    n->list = args->list;
    return n;
}

/* Inside [ ]: an expression or a slice. */
static struct jnode *parse_index(struct jparser *p)
{
    struct jnode *part[3] = {NULL, NULL, NULL};
    int n = 0;
    bool slice = false;
    for (;;) {
        if (jinja_is(p, T_OPERATOR, ":")) {
            if (n == 2)
                return jinja_syntax(p, "a slice has three parts at most");
            p->at++;
            slice = true;
            n++;
        } else if (jinja_is(p, T_OPERATOR, "]") || jinja_is(p, T_OPERATOR, ",")) {
            break;
        } else if (part[n]) {
            return jinja_syntax(p, "expected token ':', got %s", jinja_token_name(p));
        } else if (!(part[n] = jinja_parse_expression(p, true))) {
            return NULL;
        }
    }
    if (!slice)
        return part[0] ? part[0] : jinja_syntax(p, "Expected an expression, got ']'");
    struct jnode *s = jinja_node(p, N_SLICE);
    if (s) {
        s->a = part[0];
        s->b = part[1];
        s->c = part[2];
    }
    return s;
}

static struct jnode *parse_subscript(struct jparser *p, struct jnode *of)
{
    if (jinja_accept(p, T_OPERATOR, ".")) {
        bool number = p->at->type == T_INTEGER;
        if (!number && p->at->type != T_NAME)
            return jinja_syntax(p, "expected name or number");
        struct jnode *n = jinja_node(p, number ? N_GETITEM : N_GETATTR);
        if (!n)
            return NULL;
        n->a = of;
        if (number) {
            n->b = jinja_parse_number(p);
            return n->b ? n : NULL;
        }
        int name = jinja_name(p, p->at->text, p->at->len);
        if (name < 0)
            return NULL;
        n->value = (struct jvalue){.type = J_STRING, .as.s = (struct jstring *)p->t->names[name]};
        p->at++;
        return n;
    }
    p->at++; /* [ */
    struct jnode *n = jinja_node(p, N_GETITEM), *index = parse_index(p);
    if (!n || !index)
        return NULL;
    n->a = of;
    n->b = index;
    if (jinja_is(p, T_OPERATOR, ",")) { /* x[1, 2] is x[(1, 2)] */
        struct jnode *tuple = jinja_node(p, N_TUPLE), **tail = tuple ? &tuple->list : NULL;
        *(tail ? tail : &n->b) = index;
        while (tuple && jinja_accept(p, T_OPERATOR, ",")) {
            tail = &(*tail)->next;
            if (!(*tail = parse_index(p)))
                return NULL;
        }
        n->b = tuple;
    }
    return jinja_expect(p, T_OPERATOR, "]") ? n : NULL;
}

struct jnode *jinja_parse_postfix(struct jparser *p, struct jnode *n)
{
    while (n)
        if (jinja_is(p, T_OPERATOR, ".") || jinja_is(p, T_OPERATOR, "["))
            n = parse_subscript(p, n);
        else if (jinja_is(p, T_OPERATOR, "("))
            n = parse_call(p, n);
        else
            break;
    return n;
}

/* The dotted name of a filter or test; looked up in `find`. */
static bool parse_builtin(struct jparser *p, struct jnode *n, const char *kind,
                          const struct jbuiltin *(*find)(const char *, size_t))
{
    if (p->at->type != T_NAME) {
        jinja_syntax(p, "expected token 'name', got %s", jinja_token_name(p));
        return false;
    }
    const char *text = p->at->text;
    size_t len = p->at->len;
    p->at++;
    while (jinja_is(p, T_OPERATOR, ".") && p->at[1].type == T_NAME) {
        len = (size_t)(p->at[1].text + p->at[1].len - text);
        p->at += 2;
    }
    n->name = jinja_name(p, text, len);
    n->builtin = find(text, len);
    if (!n->builtin && !p->soft)
        jinja_syntax(p, "No %s named '%.*s'.", kind, (int)(len < 100 ? len : 100), text);
    return n->name >= 0 && !jinja_failed(&p->run);
}

struct jnode *jinja_parse_filter(struct jparser *p, struct jnode *in)
{
    do {
        struct jnode *n = jinja_node(p, N_FILTER);
        if (!n || !parse_builtin(p, n, "filter", jinja_find_filter))
            return NULL;
        n->a = in;
        if (jinja_is(p, T_OPERATOR, "(")) {
            struct jnode *args = parse_arguments(p);
            if (!args)
                return NULL;
            n->list = args->list;
        }
        in = n;
    } while (jinja_accept(p, T_OPERATOR, "|"));
    return in;
}

struct jnode *jinja_negate(struct jparser *p, struct jnode *n)
{
    struct jnode *not = jinja_node(p, N_NOT);
    if (not )
        not ->a = n;
    return not ;
}

static bool argument_follows(struct jparser *p)
{
    if (p->at->type == T_NAME)
        return !jinja_is(p, T_NAME, "else") && !jinja_is(p, T_NAME, "or") &&
               !jinja_is(p, T_NAME, "and");
    return p->at->type == T_STRING || p->at->type == T_INTEGER || p->at->type == T_FLOAT ||
           jinja_is(p, T_OPERATOR, "[") || jinja_is(p, T_OPERATOR, "{");
}

static struct jnode *parse_test(struct jparser *p, struct jnode *of)
{
    struct jnode *n = jinja_node(p, N_TEST);
    bool negated = jinja_accept(p, T_NAME, "not");
    if (!n || !parse_builtin(p, n, "test", jinja_find_test))
        return NULL;
    n->a = of;
    if (jinja_is(p, T_OPERATOR, "(")) {
        struct jnode *args = parse_arguments(p);
        if (!args)
            return NULL;
        n->list = args->list;
    } else if (argument_follows(p)) {
        if (jinja_is(p, T_NAME, "is"))
            return jinja_syntax(p, "You cannot chain multiple tests with is");
        if (!(n->list = jinja_node(p, N_TUPLE)) ||
            !(n->list->a = jinja_parse_postfix(p, jinja_parse_primary(p))))
            return NULL;
    }
    return negated ? jinja_negate(p, n) : n;
}

struct jnode *jinja_parse_suffixes(struct jparser *p, struct jnode *n)
{
    while (n)
        if (jinja_accept(p, T_OPERATOR, "|"))
            n = jinja_parse_filter(p, n);
        else if (jinja_accept(p, T_NAME, "is"))
            n = parse_test(p, n);
        else if (jinja_is(p, T_OPERATOR, "("))
            n = parse_call(p, n);
        else
            break;
    return n;
}
