/* Reads GBNF by recursive descent and builds one rule of the builder for each rule of the text. */
#include "engine/grammar/gbnf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/utf8.h"

#define MAX_DEPTH 100
#define MAX_RULES 20000
#define MAX_NAME 100

struct rule {
    const char *name;
    uint32_t len;
    expr rule;
    bool defined;
};

struct reader {
    struct builder *b;
    const char *text, *at, *end;
    struct rule *rules;
    int32_t *slots; /* open addressing, index + 1 */
    uint32_t n_rules, n_slots;
    int depth;
    struct err *e;
};

static expr fail(struct reader *r, const char *what)
{
    int line = 1, column = 1;
    for (const char *p = r->text; p < r->at && p < r->end; p++) {
        column = *p == '\n' ? 1 : column + 1;
        line += *p == '\n';
    }
    err_set(r->e, ERR_INPUT, "line %d, column %d: %s", line, column, what);
    return -1;
}

static expr no_memory(struct reader *r)
{
    err_set(r->e, ERR_NOMEM, "no memory to compile a grammar");
    return -1;
}

static char peek(const struct reader *r)
{
    return r->at < r->end ? *r->at : 0;
}

static bool is_name(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '-' || c == '_';
}

static void skip_space(struct reader *r, bool newlines)
{
    for (; r->at < r->end; r->at++) {
        if (*r->at == '#')
            while (r->at + 1 < r->end && r->at[1] != '\n' && r->at[1] != '\r')
                r->at++;
        else if (!(*r->at == ' ' || *r->at == '\t' ||
                   (newlines && (*r->at == '\n' || *r->at == '\r'))))
            return;
    }
}

/* ---- rules by name */

static struct rule *find_rule(struct reader *r, const char *name, uint32_t len)
{
    uint32_t at = (uint32_t)hash64(name, len, 0) & (r->n_slots - 1);
    for (; r->slots[at]; at = (at + 1) & (r->n_slots - 1)) {
        struct rule *x = &r->rules[r->slots[at] - 1];
        if (x->len == len && !memcmp(x->name, name, len))
            return x;
    }
    if (r->n_rules == MAX_RULES)
        return NULL;
    char text[MAX_NAME + 1];
    snprintf(text, sizeof text, "%.*s", (int)len, name);
    r->rules[r->n_rules] = (struct rule){name, len, expr_rule(r->b, text), false};
    r->slots[at] = (int32_t)++r->n_rules;
    return &r->rules[r->n_rules - 1];
}

static struct rule *read_name(struct reader *r)
{
    const char *name = r->at;
    while (is_name(peek(r)))
        r->at++;
    if (r->at == name || r->at - name > MAX_NAME) {
        fail(r, "a rule's name is expected, of letters, digits, '-' and '_'");
        return NULL;
    }
    struct rule *x = find_rule(r, name, (uint32_t)(r->at - name));
    if (!x)
        fail(r, "too many rules");
    return x;
}

/* ---- characters */

static int hex(char c)
{
    return c >= '0' && c <= '9'                 ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                : -1;
}

static bool read_hex(struct reader *r, int digits, uint32_t *cp)
{
    *cp = 0;
    for (int i = 0; i < digits; i++, r->at++) {
        int d = hex(peek(r));
        if (d < 0)
            return false;
        *cp = *cp << 4 | (uint32_t)d;
    }
    return *cp <= 0x10FFFF && !(*cp >= 0xD800 && *cp < 0xE000);
}

/* One character, escaped or not. */
static bool read_char(struct reader *r, uint32_t *cp)
{
    size_t n;
    if (r->at == r->end)
        return false;
    if (*r->at != '\\') {
        if (utf8_part((const unsigned char *)r->at, (size_t)(r->end - r->at), &n) != UTF8_WHOLE)
            return false;
        utf8_next((const unsigned char *)r->at, cp);
        r->at += n;
        return true;
    }
    r->at++;
    char c = peek(r);
    r->at += r->at < r->end;
    switch (c) {
    case 'x':
        return read_hex(r, 2, cp);
    case 'u':
        return read_hex(r, 4, cp);
    case 'U':
        return read_hex(r, 8, cp);
    case 'n':
        *cp = '\n';
        return true;
    case 'r':
        *cp = '\r';
        return true;
    case 't':
        *cp = '\t';
        return true;
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^':
        *cp = (uint32_t)c;
        return true;
    default:
        return false;
    }
}

static expr read_text(struct reader *r)
{
    struct buf text = {0};
    r->at++;
    while (peek(r) != '"') {
        uint32_t cp;
        unsigned char bytes[4];
        if (!read_char(r, &cp)) {
            buf_fini(&text);
            return fail(r, "the text does not end, or holds an escape that is none");
        }
        buf_append(&text, bytes, utf8_encode(cp, bytes));
    }
    r->at++;
    expr x = text.failed ? no_memory(r) : expr_bytes(r->b, text.data ? text.data : "", text.len);
    buf_fini(&text);
    return x;
}

static expr read_class(struct reader *r)
{
    struct cp_range ranges[512];
    size_t n = 0;
    r->at++;
    bool negated = peek(r) == '^';
    r->at += negated;
    while (peek(r) != ']') {
        uint32_t lo, hi;
        if (n == sizeof ranges / sizeof *ranges)
            return fail(r, "the class has too many parts");
        if (!read_char(r, &lo))
            return fail(r, "the class does not end, or holds an escape that is none");
        hi = lo;
        if (peek(r) == '-' && r->at + 1 < r->end && r->at[1] != ']') {
            r->at++;
            if (!read_char(r, &hi) || hi < lo)
                return fail(r, "a range ends before it begins");
        }
        ranges[n++] = (struct cp_range){lo, hi};
    }
    r->at++;
    return negated ? expr_class_not(r->b, ranges, n) : expr_class(r->b, ranges, n);
}

/* ---- repeats */

static bool read_number(struct reader *r, int32_t *out)
{
    int64_t v = 0;
    const char *from = r->at;
    for (; peek(r) >= '0' && peek(r) <= '9' && v <= EXPR_MAX_COUNT; r->at++)
        v = v * 10 + (*r->at - '0');
    *out = (int32_t)v;
    return r->at > from && v <= EXPR_MAX_COUNT;
}

static expr read_braces(struct reader *r, expr x)
{
    int32_t min = 0, max;
    r->at++;
    skip_space(r, true);
    if (peek(r) != ',' && !read_number(r, &min))
        return fail(r, "a number is expected");
    skip_space(r, true);
    max = min;
    if (peek(r) == ',') {
        r->at++;
        skip_space(r, true);
        max = EXPR_NO_MAX;
        if (peek(r) != '}' && !read_number(r, &max))
            return fail(r, "a number is expected");
        skip_space(r, true);
    }
    if (peek(r) != '}' || (max >= 0 && max < min))
        return fail(r, "a repeat is {m}, {m,}, {,n} or {m,n} with m up to n");
    r->at++;
    return expr_repeat(r->b, x, min, max);
}

static expr read_suffix(struct reader *r, expr x, bool nested)
{
    for (int n = 0; x >= 0; n++) {
        skip_space(r, nested);
        char c = peek(r);
        if (c != '*' && c != '+' && c != '?' && c != '{')
            break;
        if (n == MAX_DEPTH)
            return fail(r, "too many repeats of a repeat");
        if (c == '{') {
            x = read_braces(r, x);
            continue;
        }
        r->at++;
        x = expr_repeat(r->b, x, c == '+', c == '?' ? 1 : EXPR_NO_MAX);
    }
    return x;
}

/* ---- the structure */

static expr read_alternatives(struct reader *r, bool nested);

static expr read_group(struct reader *r)
{
    r->at++;
    if (++r->depth > MAX_DEPTH)
        return fail(r, "groups nest too deeply");
    skip_space(r, true);
    expr x = read_alternatives(r, true);
    r->depth--;
    if (x < 0)
        return x;
    if (peek(r) != ')')
        return fail(r, "')' is expected");
    r->at++;
    return x;
}

/* An element without its repeat; -2: none begins here. */
static expr read_element(struct reader *r)
{
    switch (peek(r)) {
    case '"':
        return read_text(r);
    case '[':
        return read_class(r);
    case '(':
        return read_group(r);
    case '.':
        r->at++;
        return expr_class(r->b, &(struct cp_range){0, 0x10FFFF}, 1);
    default:
        break;
    }
    if (!is_name(peek(r)))
        return -2;
    struct rule *x = read_name(r);
    return x ? x->rule : -1;
}

static expr read_sequence(struct reader *r, bool nested)
{
    struct expr_list l = {0};
    expr x;
    while ((x = read_element(r)) >= 0) {
        x = read_suffix(r, x, nested);
        if (x < 0)
            return x;
        expr_list_add(r->b, &l, x);
        skip_space(r, nested);
    }
    return x == -2 ? expr_seq_list(r->b, &l) : x;
}

static expr read_alternatives(struct reader *r, bool nested)
{
    struct expr_list l = {0};
    for (;;) {
        expr x = read_sequence(r, nested);
        if (x < 0)
            return x;
        expr_list_add(r->b, &l, x);
        if (peek(r) != '|')
            return expr_alt_list(r->b, &l);
        r->at++;
        skip_space(r, true);
    }
}

static bool read_rule(struct reader *r)
{
    struct rule *x = read_name(r);
    if (!x)
        return false;
    uint32_t index = (uint32_t)(x - r->rules);
    if (x->defined)
        return fail(r, "this rule is defined already") >= 0;
    x->defined = true;
    skip_space(r, false);
    if (r->end - r->at < 3 || memcmp(r->at, "::=", 3))
        return fail(r, "'::=' is expected") >= 0;
    r->at += 3;
    skip_space(r, true);
    expr body = read_alternatives(r, false);
    if (body < 0)
        return false;
    expr_define(r->b, r->rules[index].rule, body);
    if (r->at < r->end && *r->at != '\n' && *r->at != '\r')
        return fail(r, "this can't stand here") >= 0;
    skip_space(r, true);
    return true;
}

expr gbnf_read(struct builder *b, const char *text, size_t len, struct err *e)
{
    struct reader r = {
        .b = b, .text = text, .at = text, .end = text + len, .n_slots = 65536, .e = e};
    expr root = -1;
    if (len > GBNF_MAX_BYTES) {
        err_set(e, ERR_LIMIT, "%zu bytes, at most %zu are taken", len, GBNF_MAX_BYTES);
        return -1;
    }
    r.rules = malloc(MAX_RULES * sizeof *r.rules);
    r.slots = calloc(r.n_slots, sizeof *r.slots);
    if (!r.rules || !r.slots) {
        no_memory(&r);
        goto out;
    }
    skip_space(&r, true);
    while (r.at < r.end)
        if (!read_rule(&r))
            goto out;
    uint32_t before = r.n_rules;
    struct rule *x = find_rule(&r, "root", 4);
    if (!x || r.n_rules > before || !x->defined)
        err_set(e, ERR_INPUT, "there is no rule 'root'");
    else
        root = x->rule;
out:
    free(r.rules);
    free(r.slots);
    return root;
}
