/* Rewrites a pattern from Oniguruma's syntax to PCRE2's in one pass; what is the same in both is
 * copied. */
#include "engine/tokenizer/pretokenize_pattern.h"

#include <string.h>

/* Oniguruma's \w: alphabetic, marks, digits, connectors; PCRE2's has no marks. Outside a class it
 * takes Latin-1's raised digits and fractions too (found by comparing the two). */
#define WORD                                                                                       \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}"                    \
    "\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}"
static const char word_class[] = WORD;
static const char word_alone[] = "[" WORD "\\xB2\\xB3\\xB9\\xBC-\\xBE]";

struct rewrite {
    const char *p, *end;
    struct buf *out;
    bool in_class;
    struct err *e;
};

static bool refuse(const struct rewrite *r, const char *what)
{
    return err_set(r->e, ERR_UNSUPPORTED, "split pattern: %s is not understood (at '%.*s')", what,
                   (int)(r->end - r->p < 16 ? r->end - r->p : 16), r->p);
}

/* \p{...}: general categories mean the same; a script's name means its extensions too in PCRE2. */
static bool property(struct rewrite *r)
{
    static const char *const categories[] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc",
                                             "Me", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps",
                                             "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So",
                                             "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf"};
    static const char *const scripts[] = {"Han",   "Hiragana", "Katakana", "Hangul", "Latin",
                                          "Greek", "Cyrillic", "Arabic",   "Hebrew", "Thai"};
    const char *close =
        r->p + 2 < r->end && r->p[2] == '{' ? memchr(r->p, '}', (size_t)(r->end - r->p)) : NULL;
    if (!close)
        return refuse(r, "a property without braces");
    const char *name = r->p + 3;
    const char *hat = *name == '^' ? "^" : "";
    name += *hat ? 1 : 0;
    size_t n = (size_t)(close - name);
    const char *kind = NULL;
    for (size_t i = 0; i < sizeof categories / sizeof categories[0]; i++)
        if (strlen(categories[i]) == n && !memcmp(categories[i], name, n))
            kind = "";
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
        if (strlen(scripts[i]) == n && !memcmp(scripts[i], name, n))
            kind = "sc:";
    if (!kind)
        return refuse(r, "this property");
    buf_printf(r->out, "\\%c{%s%s%.*s}", r->p[1], hat, kind, (int)n, name);
    r->p = close + 1;
    return true;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* \uHHHH */
static bool code_point(struct rewrite *r)
{
    if (r->end - r->p < 6)
        return refuse(r, "a short \\u");
    for (int i = 2; i < 6; i++)
        if (!is_hex(r->p[i]))
            return refuse(r, "a \\u without four digits");
    buf_printf(r->out, "\\x{%.4s}", r->p + 2);
    r->p += 6;
    return true;
}

static bool escape(struct rewrite *r)
{
    if (r->p + 1 == r->end)
        return refuse(r, "a backslash at the end");
    char c = r->p[1];
    const char *other = NULL;
    switch (c) {
    case 'p':
    case 'P':
        return property(r);
    case 'u':
        return code_point(r);
    case 'w':
        other = r->in_class ? word_class : word_alone;
        break;
    case 'h':
        other = r->in_class ? "0-9a-fA-F" : "[0-9a-fA-F]";
        break;
    case 'v': /* one character there, a class in PCRE2 */
        buf_puts(r->out, "\\x0B");
        r->p += 2;
        return true;
    default:
        if (((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) &&
            !strchr("sSdDnrtfaexz", c))
            return refuse(r, "this escape");
        buf_append(r->out, r->p, 2);
        r->p += 2;
        return true;
    }
    buf_puts(r->out, other);
    r->p += 2;
    return true;
}

static bool group(struct rewrite *r)
{
    static const char *const known[] = {"(?:", "(?=",  "(?!",  "(?<=", "(?<!",
                                        "(?>", "(?i:", "(?i)", "(?-i:"};
    size_t left = (size_t)(r->end - r->p);
    if (left < 2 || (r->p[1] != '?' && r->p[1] != '*')) {
        buf_putc(r->out, *r->p++);
        return true;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        size_t n = strlen(known[i]);
        if (left >= n && !memcmp(r->p, known[i], n)) {
            buf_append(r->out, r->p, n);
            r->p += n;
            return true;
        }
    }
    return refuse(r, "this kind of group");
}

static bool class_begin(struct rewrite *r)
{
    r->in_class = true;
    buf_putc(r->out, *r->p++);
    if (r->p < r->end && *r->p == '^')
        buf_putc(r->out, *r->p++);
    if (r->p < r->end && *r->p == ']') /* the first one stands for itself */
        buf_puts(r->out, "\\]"), r->p++;
    return true;
}

static bool step(struct rewrite *r)
{
    char c = *r->p;
    if (c == '\\')
        return escape(r);
    if (r->in_class) {
        if (c == '[')
            return refuse(r, "a class within a class");
        if (c == '&' && r->p + 1 < r->end && r->p[1] == '&')
            return refuse(r, "the intersection of classes");
        r->in_class = c != ']';
    } else if (c == '[') {
        return class_begin(r);
    } else if (c == '(') {
        return group(r);
    } else if (c == '}' && r->p + 1 < r->end && r->p[1] == '+') {
        return refuse(r, "{}+"); /* repeats there, is possessive in PCRE2 */
    }
    buf_putc(r->out, *r->p++);
    return true;
}

bool pretokenize_pattern_rewrite(const char *pattern, size_t len, struct buf *out, struct err *e)
{
    struct rewrite r = {pattern, pattern + len, out, false, e};
    while (r.p < r.end)
        if (!step(&r))
            return false;
    return !out->failed || err_set(e, ERR_NOMEM, "out of memory");
}
