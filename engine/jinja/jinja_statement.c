/* Parses statements, the blocks between {% and %}, and the text and expressions around them, into
 * nodes. */
#include <string.h>

#include "engine/jinja/jinja_parse.h"

/* ---- tuples and targets */

static bool tuple_ends(struct jparser *p, const char *end)
{
    return p->at->type == T_VARIABLE_END || p->at->type == T_BLOCK_END ||
           jinja_is(p, T_OPERATOR, ")") || (end && jinja_is(p, T_NAME, end));
}

struct jnode *jinja_parse_tuple(struct jparser *p, bool with_condition, const char *end,
                                bool parentheses)
{
    struct jnode *first = NULL, **tail = &first;
    bool is_tuple = false;
    while (!tuple_ends(p, end)) {
        if (!(*tail = jinja_parse_expression(p, with_condition)))
            return NULL;
        tail = &(*tail)->next;
        if (!jinja_accept(p, T_OPERATOR, ","))
            break;
        is_tuple = true;
    }
    if (!is_tuple && first)
        return first;
    if (!is_tuple && !parentheses)
        return jinja_syntax(p, "Expected an expression, got %s", jinja_token_name(p));
    struct jnode *n = jinja_node(p, N_TUPLE);
    if (n)
        n->list = first;
    return n;
}

static struct jnode *parse_one_target(struct jparser *p, bool with_namespace)
{
    if (jinja_accept(p, T_OPERATOR, "(")) {
        struct jnode *n = jinja_parse_target(p, with_namespace, true);
        return n && jinja_expect(p, T_OPERATOR, ")") ? n : NULL;
    }
    if (p->at->type != T_NAME)
        return jinja_syntax(p, "expected a name to assign to, got %s", jinja_token_name(p));
    static const char *const fixed[] = {"true", "True", "false", "False", "none", "None", NULL};
    for (int i = 0; fixed[i]; i++)
        if (jinja_is(p, T_NAME, fixed[i]))
            return jinja_syntax(p, "can't assign to '%s'", fixed[i]);
    struct jnode *n = jinja_node(p, N_NAME);
    if (!n || (n->name = jinja_name(p, p->at->text, p->at->len)) < 0)
        return NULL;
    p->at++;
    if (with_namespace && jinja_accept(p, T_OPERATOR, ".")) {
        n->kind = N_NSREF;
        int attribute = p->at->type == T_NAME ? jinja_name(p, p->at->text, p->at->len) : -1;
        if (!jinja_expect(p, T_NAME, NULL) || attribute < 0)
            return NULL;
        n->value =
            (struct jvalue){.type = J_STRING, .as.s = (struct jstring *)p->t->names[attribute]};
    }
    return n;
}

struct jnode *jinja_parse_target(struct jparser *p, bool with_namespace, bool many)
{
    if (++p->depth > JINJA_MAX_NESTING)
        return jinja_syntax(p, "nested deeper than %d", JINJA_MAX_NESTING);
    struct jnode *first = parse_one_target(p, with_namespace), **tail = first ? &first->next : NULL;
    p->depth--;
    if (!first || !many || !jinja_is(p, T_OPERATOR, ","))
        return first;
    struct jnode *n = jinja_node(p, N_TUPLE);
    while (n && jinja_accept(p, T_OPERATOR, ",")) {
        if (p->at->type != T_NAME && !jinja_is(p, T_OPERATOR, "("))
            break;
        if (jinja_is(p, T_NAME, "in"))
            break;
        if (!(*tail = parse_one_target(p, with_namespace)))
            return NULL;
        tail = &(*tail)->next;
    }
    if (n)
        n->list = first;
    return n;
}

/* ---- statements */

/* The body up to one of `ends` (NULL-terminated); the end's name is left to read, then the block's
 * end. */
static bool body_until(struct jparser *p, struct jnode **body, const char *const *ends)
{
    bool ok = true;
    if (!jinja_expect(p, T_BLOCK_END, NULL))
        return false;
    *body = jinja_parse_body(p, ends, &ok);
    return ok;
}

static bool body_to_end(struct jparser *p, struct jnode **body, const char *end)
{
    const char *const ends[] = {end, NULL};
    return body_until(p, body, ends) && jinja_expect(p, T_NAME, end);
}

static struct jnode *parse_if(struct jparser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct jnode *first = jinja_node(p, N_IF), *n = first;
    p->soft++;
    while (n) {
        if (!(n->a = jinja_parse_tuple(p, false, NULL, false)) || !body_until(p, &n->list, ends))
            return NULL;
        if (jinja_accept(p, T_NAME, "elif")) {
            n->other = jinja_node(p, N_IF);
            n = n->other;
            continue;
        }
        if (jinja_accept(p, T_NAME, "else")) {
            if (!body_to_end(p, &n->other, "endif"))
                return NULL;
        } else {
            p->at++;
        }
        p->soft--;
        return first;
    }
    return NULL;
}

static struct jnode *parse_for(struct jparser *p)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    struct jnode *n = jinja_node(p, N_FOR);
    if (!n || !(n->a = jinja_parse_target(p, false, true)) || !jinja_expect(p, T_NAME, "in") ||
        !(n->b = jinja_parse_tuple(p, false, "recursive", false)))
        return NULL;
    if (jinja_accept(p, T_NAME, "if") && !(n->c = jinja_parse_expression(p, true)))
        return NULL;
    if (jinja_accept(p, T_NAME, "recursive"))
        n->flags = FOR_RECURSIVE;
    p->loops++;
    bool ok = body_until(p, &n->list, ends);
    p->loops--;
    if (!ok)
        return NULL;
    if (jinja_accept(p, T_NAME, "else"))
        return body_to_end(p, &n->other, "endfor") ? n : NULL;
    p->at++;
    return n;
}

static struct jnode *parse_set(struct jparser *p)
{
    struct jnode *n = jinja_node(p, N_SET);
    if (!n || !(n->a = jinja_parse_target(p, true, true)))
        return NULL;
    if (jinja_accept(p, T_OPERATOR, "="))
        return (n->b = jinja_parse_tuple(p, true, NULL, false)) ? n : NULL;
    n->kind = N_SET_BLOCK;
    if (jinja_accept(p, T_OPERATOR, "|") && !(n->b = jinja_parse_filter(p, NULL)))
        return NULL;
    return body_to_end(p, &n->list, "endset") ? n : NULL;
}

static struct jnode *parse_with(struct jparser *p)
{
    struct jnode *n = jinja_node(p, N_WITH), **tail = n ? &n->other : NULL;
    while (n && p->at->type != T_BLOCK_END) {
        if (n->other && !jinja_expect(p, T_OPERATOR, ","))
            return NULL;
        struct jnode *set = jinja_node(p, N_SET);
        if (!set || !(set->a = jinja_parse_target(p, false, false)) ||
            !jinja_expect(p, T_OPERATOR, "=") || !(set->b = jinja_parse_expression(p, true)))
            return NULL;
        *tail = set;
        tail = &set->next;
    }
    return n && body_to_end(p, &n->list, "endwith") ? n : NULL;
}

/* "(a, b=1)" into macro->other. */
static bool parse_signature(struct jparser *p, struct jnode *macro)
{
    struct jnode **tail = &macro->other;
    bool defaults = false;
    if (!jinja_expect(p, T_OPERATOR, "("))
        return false;
    while (!jinja_is(p, T_OPERATOR, ")")) {
        if (macro->other && !jinja_expect(p, T_OPERATOR, ","))
            return false;
        struct jnode *param = jinja_parse_target(p, false, false);
        if (!param || param->kind != N_NAME)
            return jinja_syntax(p, "a parameter must be a name") != NULL;
        if (jinja_accept(p, T_OPERATOR, "=")) {
            if (!(param->a = jinja_parse_expression(p, true)))
                return false;
            defaults = true;
        } else if (defaults) {
            return jinja_syntax(p, "non-default argument follows default argument") != NULL;
        }
        *tail = param;
        tail = &param->next;
    }
    return jinja_expect(p, T_OPERATOR, ")");
}

static bool macro_body(struct jparser *p, struct jnode *n, const char *end)
{
    struct jmacro_scope scope = {.outer = p->macro};
    int loops = p->loops;
    p->macro = &scope;
    p->loops = 0;
    bool ok = body_to_end(p, &n->list, end);
    p->loops = loops;
    p->macro = scope.outer;
    n->flags = scope.flags;
    return ok;
}

static struct jnode *parse_macro(struct jparser *p)
{
    struct jnode *n = jinja_node(p, N_MACRO);
    if (!n || p->at->type != T_NAME)
        return jinja_syntax(p, "expected token 'name', got %s", jinja_token_name(p));
    n->name = jinja_name(p, p->at->text, p->at->len);
    p->at++;
    return parse_signature(p, n) && macro_body(p, n, "endmacro") ? n : NULL;
}

static struct jnode *parse_call_block(struct jparser *p)
{
    struct jnode *n = jinja_node(p, N_CALL_BLOCK), *caller = jinja_node(p, N_MACRO);
    if (!n || !caller || (jinja_is(p, T_OPERATOR, "(") && !parse_signature(p, caller)) ||
        !(n->a = jinja_parse_expression(p, true)))
        return NULL;
    if (n->a->kind != N_CALL)
        return jinja_syntax(p, "expected call");
    caller->name = NAME_CALLER;
    n->b = caller;
    return macro_body(p, caller, "endcall") ? n : NULL;
}

static struct jnode *parse_filter_block(struct jparser *p)
{
    struct jnode *n = jinja_node(p, N_FILTER_BLOCK);
    return n && (n->b = jinja_parse_filter(p, NULL)) && body_to_end(p, &n->list, "endfilter")
               ? n
               : NULL;
}

static struct jnode *parse_scope(struct jparser *p, const char *end)
{
    struct jnode *n = jinja_node(p, N_SCOPE);
    if (!strcmp(end, "endblock")) { /* {% block name [scoped] [required] %}, closed with or without
                                       the name */
        while (p->at->type == T_NAME)
            p->at++;
        if (!n || !body_to_end(p, &n->list, end))
            return NULL;
        jinja_accept(p, T_NAME, NULL);
        return n;
    }
    return n && body_to_end(p, &n->list, end) ? n : NULL;
}

static struct jnode *parse_autoescape(struct jparser *p)
{
    struct jnode *n = jinja_node(p, N_AUTOESCAPE);
    return n && (n->a = jinja_parse_expression(p, true)) &&
                   body_to_end(p, &n->list, "endautoescape")
               ? n
               : NULL;
}

static struct jnode *parse_print(struct jparser *p)
{
    struct jnode *n = jinja_node(p, N_OUTPUT);
    return n && (n->list = jinja_parse_tuple(p, true, NULL, false)) ? n : NULL;
}

/* include, extends, import, from: other files, which a chat template has none of. */
static struct jnode *parse_loading(struct jparser *p)
{
    struct jnode *n = jinja_node(p, N_FAIL);
    if (!n)
        return NULL;
    n->value = jinja_literal(&p->run, "no loader for this environment specified");
    while (p->at->type != T_BLOCK_END && p->at->type != T_EOF)
        p->at++;
    return n;
}

static struct jnode *parse_jump(struct jparser *p, enum jnode_kind kind)
{
    if (p->loops == 0)
        return jinja_syntax(p, "'%s' outside loop", kind == N_BREAK ? "break" : "continue");
    return jinja_node(p, kind);
}

static struct jnode *parse_statement(struct jparser *p)
{
    static const char *const loading[] = {"include", "extends", "import", "from", NULL};
    if (p->at->type != T_NAME)
        return p->at->type == T_EOF
                   ? jinja_syntax(p, "unexpected end of template, expected a tag name")
                   : jinja_syntax(p, "tag name expected");
    if (jinja_accept(p, T_NAME, "if"))
        return parse_if(p);
    if (jinja_accept(p, T_NAME, "for"))
        return parse_for(p);
    if (jinja_accept(p, T_NAME, "set"))
        return parse_set(p);
    if (jinja_accept(p, T_NAME, "macro"))
        return parse_macro(p);
    if (jinja_accept(p, T_NAME, "call"))
        return parse_call_block(p);
    if (jinja_accept(p, T_NAME, "filter"))
        return parse_filter_block(p);
    if (jinja_accept(p, T_NAME, "with"))
        return parse_with(p);
    if (jinja_accept(p, T_NAME, "generation"))
        return parse_scope(p, "endgeneration");
    if (jinja_accept(p, T_NAME, "block"))
        return parse_scope(p, "endblock");
    if (jinja_accept(p, T_NAME, "autoescape"))
        return parse_autoescape(p);
    if (jinja_accept(p, T_NAME, "print"))
        return parse_print(p);
    if (jinja_accept(p, T_NAME, "break"))
        return parse_jump(p, N_BREAK);
    if (jinja_accept(p, T_NAME, "continue"))
        return parse_jump(p, N_CONTINUE);
    for (int i = 0; loading[i]; i++)
        if (jinja_accept(p, T_NAME, loading[i]))
            return parse_loading(p);
    return jinja_syntax(p, "Encountered unknown tag %s.", jinja_token_name(p));
}

static struct jnode *parse_piece(struct jparser *p)
{
    struct jnode *n;
    if (p->at->type == T_DATA) {
        n = jinja_node(p, N_TEXT);
        if (n)
            n->value = jinja_borrow(&p->run, p->at->text, p->at->len, false);
        p->at++;
        return n;
    }
    if (jinja_accept(p, T_VARIABLE_BEGIN, NULL)) {
        n = jinja_node(p, N_OUTPUT);
        return n && (n->list = jinja_parse_tuple(p, true, NULL, false)) &&
                       jinja_expect(p, T_VARIABLE_END, NULL)
                   ? n
                   : NULL;
    }
    p->at++; /* {% */
    n = parse_statement(p);
    return n && jinja_expect(p, T_BLOCK_END, NULL) ? n : NULL;
}

static bool at_end(const struct jparser *p, const char *const *ends)
{
    for (int i = 0; ends && ends[i]; i++)
        if (p->at->type == T_BLOCK_BEGIN && p->at[1].type == T_NAME &&
            p->at[1].len == strlen(ends[i]) && !memcmp(p->at[1].text, ends[i], p->at[1].len))
            return true;
    return false;
}

struct jnode *jinja_parse_body(struct jparser *p, const char *const *ends, bool *ok)
{
    struct jnode *first = NULL, **tail = &first;
    *ok = false;
    if (++p->depth > JINJA_MAX_NESTING)
        return jinja_syntax(p, "nested deeper than %d", JINJA_MAX_NESTING);
    while (p->at->type != T_EOF) {
        if (at_end(p, ends)) {
            p->at++;
            break;
        }
        if (!(*tail = parse_piece(p)))
            return NULL;
        tail = &(*tail)->next;
    }
    p->depth--;
    if (ends && p->at->type == T_EOF)
        return jinja_syntax(p, "Unexpected end of template. Jinja was looking for the tag '%s'.",
                            ends[0]);
    *ok = !jinja_failed(&p->run);
    return first;
}
