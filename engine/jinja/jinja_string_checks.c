/* The methods of str that ask what kind of text it is (isdigit, isalpha, istitle ...), by Unicode's
 * categories as Python uses them. */
#include <utf8proc.h>

#include "engine/jinja/jinja_run.h"

#define SELF (c->self.as.s)

enum {
    IS_DIGIT,
    IS_DECIMAL,
    IS_NUMERIC,
    IS_ALPHA,
    IS_ALNUM,
    IS_SPACE,
    IS_ASCII,
    IS_IDENTIFIER,
    IS_PRINTABLE
};

static bool char_is(uint32_t code, int kind)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)code);
    bool letter = k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
    bool superscript = code == 0xb2 || code == 0xb3 || code == 0xb9 || code == 0x2070 ||
                       (code >= 0x2074 && code <= 0x2079) || (code >= 0x2080 && code <= 0x2089);
    switch (kind) {
    case IS_DECIMAL:
        return k == UTF8PROC_CATEGORY_ND;
    case IS_DIGIT:
        return k == UTF8PROC_CATEGORY_ND || superscript;
    case IS_NUMERIC:
        return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
    case IS_ALPHA:
        return letter;
    case IS_ALNUM:
        return letter || k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL ||
               k == UTF8PROC_CATEGORY_NO;
    case IS_SPACE:
        return jinja_is_space(code);
    case IS_ASCII:
        return code < 0x80;
    case IS_PRINTABLE:
        return code == ' ' || !(k >= UTF8PROC_CATEGORY_ZS || k == UTF8PROC_CATEGORY_CN);
    default: /* identifier: letters, digits, marks and the underscore */
        return letter || code == '_' || k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_MN ||
               k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_PC;
    }
}

static struct jvalue check_all(struct jcall *c)
{
    jinja_charge(c->r, SELF->len);
    for (uint32_t at = 0; at < SELF->len;) {
        uint32_t code, n = jinja_decode(SELF->data + at, SELF->len - at, &code);
        if (!char_is(code, c->op) ||
            (c->op == IS_IDENTIFIER && at == 0 && char_is(code, IS_DECIMAL)))
            return jinja_bool(false);
        at += n;
    }
    return jinja_bool(SELF->len > 0 || c->op == IS_ASCII || c->op == IS_PRINTABLE);
}

/* islower, isupper: at least one cased letter and none of the other case. */
static struct jvalue check_case(struct jcall *c)
{
    bool cased = false;
    jinja_charge(c->r, SELF->len);
    for (uint32_t at = 0; at < SELF->len;) {
        uint32_t code, n = jinja_decode(SELF->data + at, SELF->len - at, &code);
        utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)code);
        bool upper = k == UTF8PROC_CATEGORY_LU, lower = k == UTF8PROC_CATEGORY_LL;
        if (k == UTF8PROC_CATEGORY_LT || (c->op ? lower : upper))
            return jinja_bool(false);
        cased |= upper || lower;
        at += n;
    }
    return jinja_bool(cased);
}

static struct jvalue check_title(struct jcall *c)
{
    bool cased = false, inside = false;
    for (uint32_t at = 0; at < SELF->len;) {
        uint32_t code, n = jinja_decode(SELF->data + at, SELF->len - at, &code);
        utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)code);
        bool upper = k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LT,
             lower = k == UTF8PROC_CATEGORY_LL;
        if ((upper && inside) || (lower && !inside))
            return jinja_bool(false);
        inside = upper || lower;
        cased |= inside;
        at += n;
    }
    return jinja_bool(cased);
}

const struct jbuiltin jinja_string_checks[] = {
    {"isdigit", "", check_all, IS_DIGIT},
    {"isdecimal", "", check_all, IS_DECIMAL},
    {"isnumeric", "", check_all, IS_NUMERIC},
    {"isalpha", "", check_all, IS_ALPHA},
    {"isalnum", "", check_all, IS_ALNUM},
    {"isspace", "", check_all, IS_SPACE},
    {"isascii", "", check_all, IS_ASCII},
    {"isidentifier", "", check_all, IS_IDENTIFIER},
    {"isprintable", "", check_all, IS_PRINTABLE},
    {"islower", "", check_case, 0},
    {"isupper", "", check_case, 1},
    {"istitle", "", check_title, 0},
    {NULL, NULL, NULL, 0},
};
