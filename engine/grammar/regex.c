/* Reads a regular expression of a schema's "pattern" by recursive descent. */
#include "engine/grammar/regex.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/utf8.h"

#define MAX_DEPTH 60
#define MAX_RANGES 600
#define MAX_PATTERN 8192

struct reader {
    struct builder *b;
    regex_class_fn make;
    const char *at;
    int depth;
    bool whole;                /* it is anchored at both ends, even where it does not say so */
    bool open_start, open_end; /* of the alternative at the top that was just read: not anchored */
    struct err *e;
};

struct set {
    struct cp_range at[MAX_RANGES];
    size_t n;
};

static const struct cp_range digits[] = {{'0', '9'}};
static const struct cp_range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct cp_range spaces[] = {
    {9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
static const struct cp_range line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

static expr bad(struct reader *r, enum err_code code, const char *what)
{
    err_set(r->e, code, "the pattern %s", what);
    return -1;
}

static bool set_add(struct set *s, uint32_t lo, uint32_t hi)
{
    if (s->n == MAX_RANGES)
        return false;
    s->at[s->n++] = (struct cp_range){lo, hi};
    return true;
}

/* In-order ranges, or what lies between them. */
static bool set_add_list(struct set *s, const struct cp_range *list, size_t n, bool negated)
{
    uint32_t from = 0;
    bool ok = true;
    for (size_t i = 0; i < n; i++) {
        if (!negated)
            ok = ok && set_add(s, list[i].lo, list[i].hi);
        else if (list[i].lo > from)
            ok = ok && set_add(s, from, list[i].lo - 1);
        from = list[i].hi + 1;
    }
    return ok && (!negated || set_add(s, from, 0x10FFFF));
}

static int by_lo(const void *x, const void *y)
{
    const struct cp_range *a = x, *b = y;
    return a->lo < b->lo ? -1 : a->lo > b->lo;
}

static bool set_negate(struct set *s)
{
    struct set out = {.n = 0};
    size_t n = 0;
    qsort(s->at, s->n, sizeof *s->at, by_lo);
    for (size_t i = 0; i < s->n; i++) { /* joined first */
        if (n && s->at[i].lo <= s->at[n - 1].hi + 1) {
            if (s->at[i].hi > s->at[n - 1].hi)
                s->at[n - 1].hi = s->at[i].hi;
        } else {
            s->at[n++] = s->at[i];
        }
    }
    bool ok = set_add_list(&out, s->at, n, true);
    memcpy(s->at, out.at, out.n * sizeof *out.at);
    s->n = out.n;
    while (s->n && s->at[s->n - 1].lo > 0x10FFFF)
        s->n--;
    return ok;
}

static bool read_hex(struct reader *r, int n, uint32_t *cp)
{
    *cp = 0;
    for (int i = 0; i < n; i++, r->at++) {
        char c = *r->at;
        int d = c >= '0' && c <= '9'                 ? c - '0'
                : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                     : -1;
        if (d < 0)
            return false;
        *cp = *cp << 4 | (uint32_t)d;
    }
    return true;
}

static bool read_unicode(struct reader *r, uint32_t *cp)
{
    if (*r->at != '{')
        return read_hex(r, 4, cp);
    const char *end = strchr(++r->at, '}');
    if (!end || end - r->at < 1 || end - r->at > 6 || !read_hex(r, (int)(end - r->at), cp))
        return false;
    r->at++;
    return *cp <= 0x10FFFF;
}

/* Behind a backslash: a set of its own, or one character. */
static bool read_escape(struct reader *r, struct set *s, uint32_t *single, bool *is_single)
{
    char c = *r->at;
    r->at += c != 0;
    *is_single = true;
    switch (c) {
    case 'd':
    case 'D':
        *is_single = false;
        return set_add_list(s, digits, 1, c == 'D');
    case 'w':
    case 'W':
        *is_single = false;
        return set_add_list(s, words, 4, c == 'W');
    case 's':
    case 'S':
        *is_single = false;
        return set_add_list(s, spaces, sizeof spaces / sizeof *spaces, c == 'S');
    case 'n':
        *single = '\n';
        return true;
    case 'r':
        *single = '\r';
        return true;
    case 't':
        *single = '\t';
        return true;
    case 'f':
        *single = '\f';
        return true;
    case 'v':
        *single = '\v';
        return true;
    case 'x':
        return read_hex(r, 2, single);
    case 'u':
        return read_unicode(r, single);
    case 'c':
        if ((*r->at | 32) < 'a' || (*r->at | 32) > 'z')
            return false;
        *single = (uint32_t)*r->at++ & 31;
        return true;
    default:
        break;
    }
    *single = (unsigned char)c;
    return c && (unsigned char)c < 0x80 && !((c | 32) >= 'a' && (c | 32) <= 'z') &&
           !(c >= '0' && c <= '9');
}

static bool read_set_item(struct reader *r, struct set *s, uint32_t *single, bool *is_single)
{
    if (*r->at == '\\') {
        r->at++;
        if (*r->at == 'b') { /* in a class: backspace */
            r->at++;
            *single = '\b';
            *is_single = true;
            return true;
        }
        return read_escape(r, s, single, is_single);
    }
    *is_single = true;
    r->at += utf8_next((const unsigned char *)r->at, single);
    return true;
}

static expr read_set(struct reader *r)
{
    struct set s = {.n = 0};
    r->at++;
    bool negated = *r->at == '^';
    r->at += negated;
    while (*r->at != ']') {
        uint32_t lo = 0, hi = 0;
        bool one, other;
        if (!*r->at)
            return bad(r, ERR_INPUT, "has a class that does not end");
        if (!read_set_item(r, &s, &lo, &one))
            return bad(r, ERR_UNSUPPORTED, "has an escape that is not understood here");
        hi = lo;
        if (one && *r->at == '-' && r->at[1] && r->at[1] != ']') {
            r->at++;
            if (!read_set_item(r, &s, &hi, &other) || !other || hi < lo)
                return bad(r, ERR_INPUT, "has a range that ends before it begins");
        }
        if (one && !set_add(&s, lo, hi))
            return bad(r, ERR_LIMIT, "has a class with too many parts");
    }
    r->at++;
    if (negated && !set_negate(&s))
        return bad(r, ERR_LIMIT, "has a class with too many parts");
    return r->make(r->b, s.at, s.n);
}

static expr read_alternatives(struct reader *r);

static expr read_group(struct reader *r)
{
    r->at++;
    if (*r->at == '?') {
        if (r->at[1] == ':') {
            r->at += 2;
        } else if (r->at[1] == '<' && r->at[2] != '=' && r->at[2] != '!') {
            const char *end = strchr(r->at, '>');
            if (!end)
                return bad(r, ERR_INPUT, "has a group's name that does not end");
            r->at = end + 1;
        } else {
            return bad(r, ERR_UNSUPPORTED, "looks ahead or behind, which is not done here");
        }
    }
    if (++r->depth > MAX_DEPTH)
        return bad(r, ERR_LIMIT, "nests too deeply");
    expr x = read_alternatives(r);
    r->depth--;
    if (x >= 0 && *r->at++ != ')')
        return bad(r, ERR_INPUT, "has a group that does not end");
    return x;
}

static expr read_atom(struct reader *r)
{
    struct set s = {.n = 0};
    uint32_t cp = 0;
    bool one = true;
    switch (*r->at) {
    case '(':
        return read_group(r);
    case '[':
        return read_set(r);
    case '.':
        r->at++;
        set_add_list(&s, line_ends, 3, true);
        return r->make(r->b, s.at, s.n);
    case '\\':
        r->at++;
        if (!read_escape(r, &s, &cp, &one))
            return bad(r, ERR_UNSUPPORTED, "has an escape that is not done here");
        break;
    case '*':
    case '+':
    case '?':
    case '{':
    case '}':
    case ']':
        return bad(r, ERR_INPUT, "has a repeat of nothing, or a bracket that needs a backslash");
    case '^':
    case '$':
        return bad(r, ERR_UNSUPPORTED, "has ^ or $ where it is not its beginning or end");
    default:
        r->at += utf8_next((const unsigned char *)r->at, &cp);
    }
    if (one)
        set_add(&s, cp, cp);
    return r->make(r->b, s.at, s.n);
}

static bool read_count(struct reader *r, int32_t *out)
{
    int64_t v = 0;
    const char *from = r->at;
    for (; *r->at >= '0' && *r->at <= '9' && v <= EXPR_MAX_COUNT; r->at++)
        v = v * 10 + (*r->at - '0');
    *out = (int32_t)v;
    return r->at > from && v <= EXPR_MAX_COUNT;
}

static expr read_repeat(struct reader *r, expr x)
{
    int32_t min, max;
    char c = *r->at;
    if (c == '*' || c == '+' || c == '?') {
        r->at++;
        min = c == '+';
        max = c == '?' ? 1 : EXPR_NO_MAX;
    } else if (c == '{') {
        r->at++;
        if (!read_count(r, &min))
            return bad(r, ERR_INPUT, "has a repeat without its number");
        max = min;
        if (*r->at == ',') {
            r->at++;
            max = EXPR_NO_MAX;
            if (*r->at != '}' && (!read_count(r, &max) || max < min))
                return bad(r, ERR_INPUT, "has a repeat whose numbers are not in order");
        }
        if (*r->at++ != '}')
            return bad(r, ERR_INPUT, "has a repeat that does not end");
    } else {
        return x;
    }
    r->at += *r->at == '?'; /* lazy or not: the same strings */
    return expr_repeat(r->b, x, min, max);
}

static expr read_sequence(struct reader *r)
{
    struct expr_list list = {0};
    bool top = r->depth == 0;
    if (top)
        r->open_start = r->open_end = !r->whole;
    if (top && *r->at == '^') {
        r->open_start = false;
        r->at++;
    }
    while (*r->at && *r->at != '|' && *r->at != ')') {
        if (top && *r->at == '$' && (!r->at[1] || r->at[1] == '|')) {
            r->open_end = false;
            r->at++;
            break;
        }
        expr x = read_atom(r);
        x = x < 0 ? x : read_repeat(r, x);
        if (x < 0)
            return x;
        expr_list_add(r->b, &list, x);
    }
    return expr_seq_list(r->b, &list);
}

/* Any characters, for the sides that are not anchored. */
static expr anything(struct reader *r)
{
    expr any = r->make(r->b, &(struct cp_range){0, 0x10FFFF}, 1);
    expr_mark_plain(r->b, any);
    return expr_repeat(r->b, any, 0, EXPR_NO_MAX);
}

static expr read_alternatives(struct reader *r)
{
    struct expr_list all = {0};
    bool top = r->depth == 0;
    for (;;) {
        expr x = read_sequence(r);
        if (x < 0)
            return x;
        if (top && r->open_start)
            x = expr_seq2(r->b, anything(r), x);
        if (top && r->open_end)
            x = expr_seq2(r->b, x, anything(r));
        expr_list_add(r->b, &all, x);
        if (*r->at != '|')
            return expr_alt_list(r->b, &all);
        r->at++;
    }
}

static expr read_pattern(struct reader *r)
{
    if (strlen(r->at) > MAX_PATTERN)
        return bad(r, ERR_LIMIT, "is too long");
    /* ^(a|b)$ is common: alternatives inside the anchors, at depth 1, come out right by themselves
     */
    expr x = read_alternatives(r);
    if (x >= 0 && *r->at)
        return bad(r, ERR_INPUT, "has a ')' that closes nothing");
    return x;
}

expr regex_read(struct builder *b, const char *pattern, regex_class_fn make, struct err *e)
{
    return read_pattern(&(struct reader){.b = b, .make = make, .at = pattern, .e = e});
}

expr regex_read_whole(struct builder *b, const char *pattern, regex_class_fn make, struct err *e)
{
    return read_pattern(
        &(struct reader){.b = b, .make = make, .at = pattern, .e = e, .whole = true});
}
