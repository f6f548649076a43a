/* Parses expressions by Jinja2's grammar, its odd precedences included (** binds to the left, a
 * filter binds tighter than a sign). What stands behind a value is in jinja_postfix.c. */
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
        if (!pair || !(pair->a = jinja_parse_expression(p, true)) ||
            !jinja_expect(p, T_OPERATOR, ":") || !(pair->b = jinja_parse_expression(p, true)))
            return NULL;
        *tail = pair;
        tail = &pair->next;
    }
    return jinja_expect(p, T_OPERATOR, "}") ? dict : NULL;
}

/* `varargs`, `kwargs` and `caller` in a macro's body decide what the macro takes. */
static void note_name(struct jparser *p, int name)
{
    int flag = name == NAME_VARARGS  ? MACRO_VARARGS
               : name == NAME_KWARGS ? MACRO_KWARGS
               : name == NAME_CALLER ? MACRO_CALLER
                                     : 0;
    for (struct jmacro_scope *m = p->macro; m && flag; m = m->outer)
        m->flags |= (uint8_t)flag;
}

static struct jnode *parse_name(struct jparser *p)
{
    static const struct {
        const char *word;
        struct jvalue value;
    } words[] = {
        {"true", {.type = J_BOOL, .as.b = true}},
        {"True", {.type = J_BOOL, .as.b = true}},
        {"false", {.type = J_BOOL}},
        {"False", {.type = J_BOOL}},
        {"none", {.type = J_NONE}},
        {"None", {.type = J_NONE}},
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
    case T_NAME:
        return parse_name(p);
    case T_STRING:
        return jinja_parse_string(p);
    case T_INTEGER:
    case T_FLOAT:
        return jinja_parse_number(p);
    default:
        break;
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
    return with_filter ? jinja_parse_suffixes(p, n) : n;
}

/* ---- operators, loosest first */

static const struct binary {
    const char *text;
    uint8_t op, level;
} binaries[] = {
    {"+", OP_ADD, 1}, {"-", OP_SUB, 1},       {"~", 0, 2},      {"*", OP_MUL, 3},
    {"/", OP_DIV, 3}, {"//", OP_FLOORDIV, 3}, {"%", OP_MOD, 3}, {"**", OP_POW, 4},
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
    } ops[] = {{"==", OP_EQ}, {"!=", OP_NE}, {"<", OP_LT},
               {"<=", OP_LE}, {">", OP_GT},  {">=", OP_GE}};
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
    return of ? jinja_negate(p, of) : NULL;
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
