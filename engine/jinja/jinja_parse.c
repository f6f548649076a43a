/* What the parsers of statements and expressions share: looking at tokens and taking them, errors
 * of syntax with their line, new nodes, and the table of names, in which every name of a template
 * has one number. */
#include "engine/jinja/jinja_parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"

struct jnode *jinja_syntax(struct jparser *p, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!jinja_failed(&p->run)) {
        jinja_fail(&p->run, JINJA_RUNTIME, "line %d: %s", p->at->line, text);
        if (p->run.e)
            p->run.e->code = ERR_FORMAT;
    }
    return NULL;
}

bool jinja_is(const struct jparser *p, enum jtoken_type type, const char *text)
{
    return p->at->type == type &&
           (!text || (p->at->len == strlen(text) && !memcmp(p->at->text, text, p->at->len)));
}

bool jinja_accept(struct jparser *p, enum jtoken_type type, const char *text)
{
    if (!jinja_is(p, type, text))
        return false;
    p->at++;
    return true;
}

const char *jinja_token_name(struct jparser *p)
{
    switch (p->at->type) {
    case T_EOF:
        return "end of template";
    case T_DATA:
        return "template data";
    case T_VARIABLE_BEGIN:
        return "'begin of print statement'";
    case T_VARIABLE_END:
        return "'end of print statement'";
    case T_BLOCK_BEGIN:
        return "'begin of statement block'";
    case T_BLOCK_END:
        return "'end of statement block'";
    default:
        return jinja_printf(&p->run, "'%.*s'", (int)(p->at->len < 60 ? p->at->len : 60),
                            p->at->text);
    }
}

bool jinja_expect(struct jparser *p, enum jtoken_type type, const char *text)
{
    if (jinja_failed(&p->run))
        return false;
    if (jinja_accept(p, type, text))
        return true;
    const char *want = text                     ? text
                       : type == T_VARIABLE_END ? "end of print statement"
                       : type == T_BLOCK_END    ? "end of statement block"
                                                : "name";
    if (p->at->type == T_EOF)
        jinja_syntax(p, "unexpected end of template, expected '%s'.", want);
    else
        jinja_syntax(p, "expected token '%s', got %s", want, jinja_token_name(p));
    return false;
}

struct jnode *jinja_node(struct jparser *p, enum jnode_kind kind)
{
    struct jnode *n = jinja_alloc(&p->run, sizeof *n);
    if (n)
        *n = (struct jnode){.kind = (uint8_t)kind, .line = p->at->line, .name = -1};
    return n;
}

static bool grow_names(struct jparser *p)
{
    int cap = p->cap_names ? p->cap_names * 2 : 64;
    const struct jstring **names = jinja_alloc(&p->run, (size_t)cap * sizeof *names);
    int *index = calloc((size_t)cap * 2, sizeof *index);
    if (!names || !index) {
        free(index);
        jinja_fail(&p->run, JINJA_NOMEM, "memory ran out in a template");
        return false;
    }
    if (p->t->n_names)
        memcpy(names, p->t->names, (size_t)p->t->n_names * sizeof *names);
    free(p->name_index);
    p->name_index = index;
    p->n_index = cap * 2;
    p->cap_names = cap;
    p->t->names = names;
    for (int i = 0; i < p->t->n_names; i++) {
        uint32_t at =
            (uint32_t)hash64(names[i]->data, names[i]->len, 0) & (uint32_t)(p->n_index - 1);
        while (index[at])
            at = (at + 1) & (uint32_t)(p->n_index - 1);
        index[at] = i + 1;
    }
    return true;
}

int jinja_name(struct jparser *p, const char *text, size_t len)
{
    if (p->t->n_names == p->cap_names && !grow_names(p))
        return -1;
    uint32_t mask = (uint32_t)(p->n_index - 1), at = (uint32_t)hash64(text, len, 0) & mask;
    for (; p->name_index[at]; at = (at + 1) & mask) {
        const struct jstring *s = p->t->names[p->name_index[at] - 1];
        if (s->len == len && !memcmp(s->data, text, len))
            return p->name_index[at] - 1;
    }
    struct jvalue v = jinja_text(&p->run, text, len);
    if (jinja_failed(&p->run))
        return -1;
    p->t->names[p->t->n_names] = v.as.s;
    p->name_index[at] = ++p->t->n_names;
    return p->t->n_names - 1;
}
