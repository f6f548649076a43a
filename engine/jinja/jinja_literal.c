/* Parses literals: strings with Python's escapes, and numbers. */
#include <stdlib.h>
#include <string.h>

#include "engine/jinja/jinja_parse.h"

struct jnode *jinja_constant(struct jparser *p, struct jvalue v)
{
    struct jnode *n = jinja_node(p, N_CONST);
    if (n)
        n->value = v;
    return n;
}

static uint32_t hex_value(const char *s, size_t n)
{
    char text[9] = "";
    memcpy(text, s, n);
    return (uint32_t)strtoul(text, NULL, 16);
}

static bool all_hex(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!((s[i] >= '0' && s[i] <= '9') || ((s[i] | 32) >= 'a' && (s[i] | 32) <= 'f')))
            return false;
    return true;
}

/* One escape behind a backslash at s[0]; returns how many bytes it took, 0 for an ill-formed one.
 */
static size_t unescape(const char *s, size_t len, struct jbuilder *b)
{
    static const char from[] = "ntrabfv\\'\"", to[] = "\n\t\r\a\b\f\v\\'\"";
    const char *simple = strchr(from, s[0]);
    if (simple) {
        jinja_put(b, &to[simple - from], 1, false);
        return 1;
    }
    if (s[0] == '\n')
        return 1;
    char out[4];
    if (s[0] >= '0' && s[0] <= '7') {
        uint32_t code = 0;
        size_t n = 0;
        while (n < 3 && n < len && s[n] >= '0' && s[n] <= '7')
            code = code * 8 + (uint32_t)(s[n++] - '0');
        jinja_put(b, out, jinja_encode(code, out), false);
        return n;
    }
    size_t n = s[0] == 'x' ? 2 : s[0] == 'u' ? 4 : s[0] == 'U' ? 8 : 0;
    if (n == 0) { /* unknown escapes stay as they are */
        jinja_put(b, "\\", 1, false);
        jinja_put(b, s, 1, false);
        return 1;
    }
    if (len < n + 1 || !all_hex(s + 1, n))
        return 0;
    uint32_t code = hex_value(s + 1, n);
    size_t used = n + 1;
    if (code >= 0xd800 && code < 0xdc00 && len >= used + 6 && s[used] == '\\' &&
        s[used + 1] == 'u' &&
        all_hex(s + used + 2, 4)) { /* a pair of surrogates is one character here */
        uint32_t low = hex_value(s + used + 2, 4);
        if (low >= 0xdc00 && low < 0xe000) {
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            used += 6;
        }
    }
    if (code > 0x10ffff)
        return 0;
    if (code >= 0xd800 && code < 0xe000)
        code = 0xfffd;
    jinja_put(b, out, jinja_encode(code, out), false);
    return used;
}

struct jnode *jinja_parse_string(struct jparser *p)
{
    struct jbuilder b;
    jinja_builder_init(&b, &p->run);
    while (jinja_is(p, T_STRING, NULL)) { /* strings side by side are one */
        const char *s = p->at->text, *end = s + p->at->len;
        while (s < end) {
            const char *slash = memchr(s, '\\', (size_t)(end - s));
            size_t plain = (size_t)((slash ? slash : end) - s);
            jinja_put(&b, s, plain, false);
            s += plain;
            if (s == end)
                break;
            size_t used = end - s > 1 ? unescape(s + 1, (size_t)(end - s - 1), &b) : 0;
            if (used == 0) {
                jinja_builder_fini(&b);
                return jinja_syntax(p, "ill-formed escape in a string");
            }
            s += 1 + used;
        }
        p->at++;
    }
    return jinja_constant(p, jinja_builder_take(&b));
}

struct jnode *jinja_parse_number(struct jparser *p)
{
    char text[64];
    size_t n = 0;
    if (p->at->type == T_INTEGER) {
        struct jvalue v = jinja_parse_int(&p->run, p->at->text, p->at->len);
        p->at++;
        return jinja_constant(p, v);
    }
    for (uint32_t i = 0; i < p->at->len && n + 1 < sizeof text; i++)
        if (p->at->text[i] != '_')
            text[n++] = p->at->text[i];
    text[n] = 0;
    p->at++;
    return jinja_constant(p, jinja_float(strtod(text, NULL)));
}
