/* Source to tokens, with Jinja2's rules of white space: trim_blocks and lstrip_blocks are on,
 * "-" strips more, "+" switches stripping off. */
#include <stdlib.h>
#include <string.h>

#include "engine/jinja/jinja_parse.h"

struct lexer {
    const char *s;
    size_t len, at;
    int line;
    bool line_starting; /* the last match ended with a newline */
    struct jtokens *out;
    struct err *e;
};

static bool emit(struct lexer *x, enum jtoken_type type, size_t from, size_t to)
{
    struct jtokens *t = x->out;
    if (t->n == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 256;
        struct jtoken *at = realloc(t->at, cap * sizeof *at);
        if (!at)
            return err_set(x->e, ERR_NOMEM, "memory ran out in a template of %zu bytes", x->len);
        t->at = at;
        t->cap = cap;
    }
    t->at[t->n++] = (struct jtoken){
        .type = type, .text = x->s + from, .len = (uint32_t)(to - from), .line = x->line};
    return true;
}

static bool fail(struct lexer *x, const char *what)
{
    return err_set(x->e, ERR_FORMAT, "line %d: %s", x->line, what);
}

static bool starts(const struct lexer *x, size_t at, const char *word)
{
    size_t n = strlen(word);
    return x->len - at >= n && !memcmp(x->s + at, word, n);
}

static size_t skip_space(const struct lexer *x, size_t at)
{
    while (at < x->len) {
        uint32_t code, n = jinja_decode(x->s + at, x->len - at, &code);
        if (!jinja_is_space(code))
            break;
        at += n;
    }
    return at;
}

/* Where the white space at the end of [from, to) begins. */
static size_t before_space(const struct lexer *x, size_t from, size_t to)
{
    while (to > from) {
        size_t start = to - 1;
        while (start > from && ((unsigned char)x->s[start] & 0xc0) == 0x80)
            start--;
        uint32_t code, n = jinja_decode(x->s + start, to - start, &code);
        if (start + n != to || !jinja_is_space(code))
            break;
        to = start;
    }
    return to;
}

static void advance(struct lexer *x, size_t to)
{
    for (size_t i = x->at; i < to; i++)
        x->line += x->s[i] == '\n';
    if (to > x->at)
        x->line_starting = x->s[to - 1] == '\n';
    x->at = to;
}

/* Text before a tag: `sign` is what stands behind the tag's opening. */
static bool emit_data(struct lexer *x, size_t from, size_t to, char sign, bool is_variable)
{
    if (sign == '-') {
        to = before_space(x, from, to);
    } else if (sign != '+' && !is_variable) {
        size_t line = to;
        while (line > from && x->s[line - 1] != '\n')
            line--;
        if ((line > from || x->line_starting) && before_space(x, line, to) == line)
            to = line;
    }
    return to == from || emit(x, T_DATA, from, to);
}

/* Behind "#}" or "%}" at `at`, whose strip sign stands before it: where the tag's match ends. */
static size_t end_of_tag(const struct lexer *x, size_t at, char sign, bool trim)
{
    at += 2;
    if (sign == '-')
        return skip_space(x, at);
    return trim && sign != '+' && at < x->len && x->s[at] == '\n' ? at + 1 : at;
}

static bool lex_comment(struct lexer *x, size_t start)
{
    const char *end = memmem(x->s + start, x->len - start, "#}", 2);
    if (!end)
        return fail(x, "Missing end of comment tag");
    size_t at = (size_t)(end - x->s);
    char sign = at > start && (x->s[at - 1] == '-' || x->s[at - 1] == '+') ? x->s[at - 1] : 0;
    advance(x, end_of_tag(x, at, sign, true));
    return true;
}

/* Is there "{% raw %}" at `at`? Gives the end of it and its sign. */
static bool raw_begins(const struct lexer *x, size_t at, size_t *end)
{
    at += 2;
    if (at < x->len && (x->s[at] == '-' || x->s[at] == '+'))
        at++;
    at = skip_space(x, at);
    if (!starts(x, at, "raw"))
        return false;
    at = skip_space(x, at + 3);
    if (starts(x, at, "-%}"))
        *end = skip_space(x, at + 3);
    else if (starts(x, at, "%}"))
        *end = at + 2;
    else
        return false;
    return true;
}

static bool lex_raw(struct lexer *x)
{
    for (size_t at = x->at; at + 2 <= x->len; at++) {
        if (!starts(x, at, "{%"))
            continue;
        size_t word = at + 2;
        char sign = word < x->len ? x->s[word] : 0;
        if (sign == '-' || sign == '+')
            word++;
        word = skip_space(x, word);
        if (!starts(x, word, "endraw"))
            continue;
        size_t end = skip_space(x, word + 6);
        char close = end < x->len && (x->s[end] == '-' || x->s[end] == '+') ? x->s[end] : 0;
        if (!starts(x, end + (close != 0), "%}"))
            continue;
        if (!emit_data(x, x->at, at, sign, false))
            return false;
        advance(x, end_of_tag(x, end + (close != 0), close, true));
        return true;
    }
    return fail(x, "Missing end of raw directive");
}

static bool is_word(unsigned char c)
{
    return c == '_' || c >= 0x80 || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits with single underscores between them; returns where they end. */
static size_t digits(const struct lexer *x, size_t at, const char *set)
{
    while (at < x->len) {
        size_t d = x->s[at] == '_' ? at + 1 : at;
        if (d >= x->len || !x->s[d] ||
            !strchr(set, x->s[d] | (x->s[d] >= 'A' && x->s[d] <= 'Z' ? 32 : 0)))
            break;
        at = d + 1;
    }
    return at;
}

static bool lex_number(struct lexer *x)
{
    static const char decimal[] = "0123456789";
    size_t at = x->at, end = digits(x, at, decimal);
    bool is_float = false;
    if (!(at > 0 && x->s[at - 1] == '.')) {
        if (end + 1 < x->len && x->s[end] == '.' && is_digit(x->s[end + 1])) {
            end = digits(x, end + 1, decimal);
            is_float = true;
        }
        size_t exp = end;
        if (exp < x->len && (x->s[exp] | 32) == 'e') {
            exp++;
            if (exp < x->len && (x->s[exp] == '+' || x->s[exp] == '-'))
                exp++;
            if (exp < x->len && is_digit(x->s[exp])) {
                end = digits(x, exp, decimal);
                is_float = true;
            }
        }
    }
    if (!is_float && x->s[at] == '0') {
        char kind = at + 1 < x->len ? x->s[at + 1] | 32 : 0;
        const char *set = kind == 'x'   ? "0123456789abcdef"
                          : kind == 'o' ? "01234567"
                          : kind == 'b' ? "01"
                                        : NULL;
        end = set && digits(x, at + 2, set) > at + 2 ? digits(x, at + 2, set) : digits(x, at, "0");
    }
    bool ok = emit(x, is_float ? T_FLOAT : T_INTEGER, at, end);
    advance(x, end);
    return ok;
}

static bool lex_string(struct lexer *x)
{
    char quote = x->s[x->at];
    size_t at = x->at + 1;
    while (at < x->len && x->s[at] != quote)
        at += x->s[at] == '\\' ? 2 : 1;
    if (at >= x->len)
        return err_set(x->e, ERR_FORMAT, "line %d: unexpected char %s at %zu", x->line,
                       quote == '"' ? "'\"'" : "\"'\"", x->at);
    bool ok = emit(x, T_STRING, x->at + 1, at);
    advance(x, at + 1);
    return ok;
}

/* One operator; keeps the stack of open brackets, so that "}}" may end two dicts. */
static bool lex_operator(struct lexer *x, char *stack, int *n, int cap)
{
    static const char *const two[] = {"//", "**", "==", "!=", ">=", "<=", NULL};
    size_t size = 1;
    for (int i = 0; two[i]; i++)
        if (starts(x, x->at, two[i]))
            size = 2;
    char c = x->s[x->at];
    if (size == 1 && !(c && strchr("+-/*%~[](){}><=.:|,;", c)))
        return err_set(x->e, ERR_FORMAT, "line %d: unexpected char '%c' at %zu", x->line,
                       c >= ' ' && c < 127 ? c : '?', x->at);
    if (c == '(' || c == '[' || c == '{') {
        if (*n == cap)
            return err_set(x->e, ERR_LIMIT, "line %d: brackets nest deeper than %d", x->line, cap);
        stack[(*n)++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        if (*n == 0)
            return err_set(x->e, ERR_FORMAT, "line %d: unexpected '%c'", x->line, c);
        if (stack[--*n] != c)
            return err_set(x->e, ERR_FORMAT, "line %d: unexpected '%c', expected '%c'", x->line, c,
                           stack[*n]);
    }
    bool ok = emit(x, T_OPERATOR, x->at, x->at + size);
    advance(x, x->at + size);
    return ok;
}

/* Does the tag end here? Gives where its match ends. */
static bool tag_ends(const struct lexer *x, const char *close, size_t *end)
{
    bool block = close[0] == '%';
    char sign = x->s[x->at];
    if ((sign == '-' || (sign == '+' && block)) && starts(x, x->at + 1, close))
        *end = end_of_tag(x, x->at + 1, sign, block);
    else if (starts(x, x->at, close))
        *end = end_of_tag(x, x->at, 0, block);
    else
        return false;
    return true;
}

static bool lex_tag(struct lexer *x, const char *close, enum jtoken_type end_type)
{
    char stack[JINJA_MAX_NESTING];
    int n = 0;
    while (x->at < x->len) {
        size_t end;
        if (n == 0 && tag_ends(x, close, &end)) {
            bool ok = emit(x, end_type, x->at, x->at + 2);
            advance(x, end);
            return ok;
        }
        size_t space = skip_space(x, x->at);
        unsigned char c = (unsigned char)x->s[x->at];
        bool ok = true;
        if (space > x->at) {
            advance(x, space);
        } else if (is_digit((char)c)) {
            ok = lex_number(x);
        } else if (is_word(c)) {
            size_t to = x->at;
            while (to < x->len && is_word((unsigned char)x->s[to]))
                to++;
            ok = emit(x, T_NAME, x->at, to);
            advance(x, to);
        } else if (c == '"' || c == '\'') {
            ok = lex_string(x);
        } else {
            ok = lex_operator(x, stack, &n, (int)sizeof stack);
        }
        if (!ok)
            return false;
    }
    return true; /* the parser says what is missing */
}

static bool lex_next(struct lexer *x)
{
    size_t at = x->at;
    while (at < x->len) {
        const char *brace = memchr(x->s + at, '{', x->len - at);
        at = brace ? (size_t)(brace - x->s) : x->len;
        if (at + 1 >= x->len || (x->s[at + 1] && strchr("{%#", x->s[at + 1])))
            break;
        at++;
    }
    if (at + 1 >= x->len) { /* no tag any more */
        bool ok = emit(x, T_DATA, x->at, x->len);
        advance(x, x->len);
        return ok;
    }
    char kind = x->s[at + 1], sign = at + 2 < x->len ? x->s[at + 2] : 0;
    if (sign != '-' && sign != '+')
        sign = 0;
    if (!emit_data(x, x->at, at, sign, kind == '{'))
        return false;
    size_t raw;
    if (kind == '%' && raw_begins(x, at, &raw)) {
        advance(x, raw);
        return lex_raw(x);
    }
    size_t inside = at + 2 + (sign != 0);
    advance(x, inside);
    if (kind == '#')
        return lex_comment(x, inside);
    if (!emit(x, kind == '{' ? T_VARIABLE_BEGIN : T_BLOCK_BEGIN, at, at + 2))
        return false;
    return kind == '{' ? lex_tag(x, "}}", T_VARIABLE_END) : lex_tag(x, "%}", T_BLOCK_END);
}

bool jinja_lex(const char *source, size_t len, struct jtokens *out, struct err *e)
{
    struct lexer x = {
        .s = source, .len = len, .line = 1, .line_starting = true, .out = out, .e = e};
    while (x.at < x.len)
        if (!lex_next(&x))
            return false;
    return emit(&x, T_EOF, len, len);
}
