/* Expressions: Jinja2's grammar, its odd precedences included (** binds to the left, a filter binds
 * tighter than a sign). */
#include <string.h>

#include "engine/jinja/jinja_parse.h"

static struct jnode *parse_list(struct jparser *p)
{
    struct jnode *list = jinja_node(p, N_LIST), **tail = list ? &list->list : NULL;
    p->at++;
    while (list && !jinja_is(p, T_OPERATOR, "]")) {
        if (list->list && !jinja_expect(p, T_OPERATOR, ","))
            return NULL;
        if (jinja_is(p, T_OPERATOR, "]"))
            break;
        struct jnode *item = jinja_parse_expression(p, true);
        if (!item)
            return NULL;
        *tail = item;
        tail = &item->next;
    }
    return jinja_expect(p, T_OPERATOR, "]") ? list : NULL;
}

static struct jnode *parse_dict(struct jparser *p)
{
    struct jnode *dict = jinja_node(p, N_DICT), **tail = dict ? &dict->list : NULL;
    p->at++;
    while (dict && !jinja_is(p, T_OPERATOR, "}")) {
        if (dict->list && !jinja_expect(p, T_OPERATOR, ","))
            return NULL;
        if (jinja_is(p, T_OPERATOR, "}"))
            break;
        struct jnode *pair = jinja_node(p, N_TUPLE);
        if (!pair || !(pair->a = jinja_parse_expression(p, true)) || !jinja_expect(p, T_OPERATOR, ":") ||
            !(pair->b = jinja_parse_expression(p, true)))
            return NULL;
        *tail = pair;
        tail = &pair->next;
    }
    return jinja_expect(p, T_OPERATOR, "}") ? dict : NULL;
}

/* `varargs`, `kwargs` and `caller` in a macro's body decide what the macro takes. */
static void note_name(struct jparser *p, int name)
{
    int flag = name == NAME_VARARGS ? MACRO_VARARGS : name == NAME_KWARGS ? MACRO_KWARGS
             : name == NAME_CALLER ? MACRO_CALLER : 0;
    for (struct jmacro_scope *m = p->macro; m && flag; m = m->outer)
        m->flags |= (uint8_t)flag;
}

static struct jnode *parse_name(struct jparser *p)
{
    static const struct {
        const char *word;
        struct jvalue value;
    } words[] = {
        {"true", {.type = J_BOOL, .as.b = true}}, {"True", {.type = J_BOOL, .as.b = true}},
        {"false", {.type = J_BOOL}}, {"False", {.type = J_BOOL}},
        {"none", {.type = J_NONE}}, {"None", {.type = J_NONE}},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (jinja_accept(p, T_NAME, words[i].word))
            return jinja_constant(p, words[i].value);
    struct jnode *n = jinja_node(p, N_NAME);
    if (!n)
        return NULL;
    n->name = jinja_name(p, p->at->text, p->at->len);
    note_name(p, n->name);
    p->at++;
    return n;
}

struct jnode *jinja_parse_primary(struct jparser *p)
{
    switch (p->at->type) {
    case T_NAME: return parse_name(p);
    case T_STRING: return jinja_parse_string(p);
    case T_INTEGER:
    case T_FLOAT: return jinja_parse_number(p);
    default: break;
    }
    if (jinja_is(p, T_OPERATOR, "[") || jinja_is(p, T_OPERATOR, "{"))
        return p->at->text[0] == '[' ? parse_list(p) : parse_dict(p);
    if (jinja_accept(p, T_OPERATOR, "(")) {
        struct jnode *n = jinja_parse_tuple(p, true, NULL, true);
        return n && jinja_expect(p, T_OPERATOR, ")") ? n : NULL;
    }
    if (p->at->type == T_EOF)
        return jinja_syntax(p, "unexpected end of template, expected an expression");
    return jinja_syntax(p, "Expected an expression, got %s", jinja_token_name(p));
}

/* ---- what follows a value */

struct jnode *jinja_parse_arguments(struct jparser *p)
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
    struct jnode *n = jinja_node(p, N_CALL), *args = jinja_parse_arguments(p);
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
    while (n) {
        if (jinja_is(p, T_OPERATOR, ".") || jinja_is(p, T_OPERATOR, "["))
            n = parse_subscript(p, n);
        else if (jinja_is(p, T_OPERATOR, "("))
            n = parse_call(p, n);
        else
            break;
    }
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
            struct jnode *args = jinja_parse_arguments(p);
            if (!args)
                return NULL;
            n->list = args->list;
        }
        in = n;
    } while (jinja_accept(p, T_OPERATOR, "|"));
    return in;
}

static struct jnode *negate(struct jparser *p, struct jnode *n)
{
    struct jnode *not = jinja_node(p, N_NOT);
    if (not)
        not->a = n;
    return not;
}

static bool argument_follows(struct jparser *p)
{
    if (p->at->type == T_NAME)
        return !jinja_is(p, T_NAME, "else") && !jinja_is(p, T_NAME, "or") && !jinja_is(p, T_NAME, "and");
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
        struct jnode *args = jinja_parse_arguments(p);
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
    return negated ? negate(p, n) : n;
}

static struct jnode *parse_suffixes(struct jparser *p, struct jnode *n)
{
    while (n) {
        if (jinja_accept(p, T_OPERATOR, "|"))
            n = jinja_parse_filter(p, n);
        else if (jinja_accept(p, T_NAME, "is"))
            n = parse_test(p, n);
        else if (jinja_is(p, T_OPERATOR, "("))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

static struct jnode *parse_unary(struct jparser *p, bool with_filter)
{
    struct jnode *n;
    if (jinja_is(p, T_OPERATOR, "-") || jinja_is(p, T_OPERATOR, "+")) {
        if (++p->depth > JINJA_MAX_NESTING)
            return jinja_syntax(p, "nested deeper than %d", JINJA_MAX_NESTING);
        if (!(n = jinja_node(p, N_UNARY)))
            return NULL;
        n->op = p->at->text[0] == '-' ? OP_NEG : OP_POS;
        p->at++;
        n->a = parse_unary(p, false);
        p->depth--;
        if (!n->a)
            return NULL;
    } else {
        n = jinja_parse_primary(p);
    }
    n = jinja_parse_postfix(p, n);
    return with_filter ? parse_suffixes(p, n) : n;
}

/* ---- operators, loosest first */

static const struct binary {
    const char *text;
    uint8_t op, level;
} binaries[] = {
    {"+", OP_ADD, 1}, {"-", OP_SUB, 1}, {"~", 0, 2}, {"*", OP_MUL, 3}, {"/", OP_DIV, 3},
    {"//", OP_FLOORDIV, 3}, {"%", OP_MOD, 3}, {"**", OP_POW, 4},
};

static const struct binary *binary_at(const struct jparser *p, int least)
{
    for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++)
        if (binaries[i].level >= least && jinja_is(p, T_OPERATOR, binaries[i].text))
            return &binaries[i];
    return NULL;
}

static struct jnode *parse_binary(struct jparser *p, int least)
{
    struct jnode *left = parse_unary(p, true);
    const struct binary *b;
    while (left && (b = binary_at(p, least))) {
        struct jnode *n = jinja_node(p, b->level == 2 ? N_CONCAT : N_BINARY);
        if (!n)
            return NULL;
        n->op = b->op;
        if (b->level == 2) { /* a ~ b ~ c is one node */
            n->list = left;
            struct jnode **tail = &left->next;
            while (jinja_accept(p, T_OPERATOR, "~")) {
                if (!(*tail = parse_binary(p, 3)))
                    return NULL;
                tail = &(*tail)->next;
            }
        } else {
            p->at++;
            n->a = left;
            if (!(n->b = parse_binary(p, b->level + 1)))
                return NULL;
        }
        left = n;
    }
    return left;
}

static int comparison_at(struct jparser *p)
{
    static const struct {
        const char *text;
        enum joperator op;
    } ops[] = {{"==", OP_EQ}, {"!=", OP_NE}, {"<", OP_LT}, {"<=", OP_LE}, {">", OP_GT}, {">=", OP_GE}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (jinja_accept(p, T_OPERATOR, ops[i].text))
            return ops[i].op;
    if (jinja_accept(p, T_NAME, "in"))
        return OP_IN;
    if (jinja_is(p, T_NAME, "not") && p->at[1].type == T_NAME && p->at[1].len == 2 &&
        !memcmp(p->at[1].text, "in", 2)) {
        p->at += 2;
        return OP_NOT_IN;
    }
    return -1;
}

static struct jnode *parse_compare(struct jparser *p)
{
    struct jnode *first = parse_binary(p, 1), *n = NULL, **tail = NULL;
    int op;
    while (first && (op = comparison_at(p)) >= 0) {
        if (!n) {
            if (!(n = jinja_node(p, N_COMPARE)))
                return NULL;
            n->a = first;
            tail = &n->list;
        }
        struct jnode *with = jinja_node(p, N_TUPLE);
        if (!with || !(with->a = parse_binary(p, 1)))
            return NULL;
        with->op = (uint8_t)op;
        *tail = with;
        tail = &with->next;
    }
    return n ? n : first;
}

static struct jnode *parse_not(struct jparser *p)
{
    if (!jinja_is(p, T_NAME, "not"))
        return parse_compare(p);
    p->at++;
    if (++p->depth > JINJA_MAX_NESTING)
        return jinja_syntax(p, "nested deeper than %d", JINJA_MAX_NESTING);
    struct jnode *of = parse_not(p);
    p->depth--;
    return of ? negate(p, of) : NULL;
}

static struct jnode *pair(struct jparser *p, enum jnode_kind kind, struct jnode *a, struct jnode *b)
{
    struct jnode *n = jinja_node(p, kind);
    if (!n || !b)
        return NULL;
    n->a = a;
    n->b = b;
    return n;
}

static struct jnode *parse_or(struct jparser *p)
{
    struct jnode *left = NULL;
    do {
        struct jnode *both = parse_not(p);
        while (both && jinja_accept(p, T_NAME, "and"))
            both = pair(p, N_AND, both, parse_not(p));
        left = !both || !left ? both : pair(p, N_OR, left, both);
    } while (left && jinja_accept(p, T_NAME, "or"));
    return left;
}

static struct jnode *parse_conditional(struct jparser *p)
{
    struct jnode *value = parse_or(p);
    while (value && jinja_accept(p, T_NAME, "if")) {
        struct jnode *n = jinja_node(p, N_COND);
        if (!n || !(n->a = parse_or(p)))
            return NULL;
        n->b = value;
        if (jinja_accept(p, T_NAME, "else") && !(n->c = jinja_parse_expression(p, true)))
            return NULL;
        value = n;
    }
    return value;
}

struct jnode *jinja_parse_expression(struct jparser *p, bool with_condition)
{
    if (jinja_failed(&p->run))
        return NULL;
    if (++p->depth > JINJA_MAX_NESTING)
        return jinja_syntax(p, "nested deeper than %d", JINJA_MAX_NESTING);
    struct jnode *n = with_condition ? parse_conditional(p) : parse_or(p);
    p->depth--;
    return n;
}
