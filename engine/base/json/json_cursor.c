/* Walks JSON text without building a tree, by the cursor of json_cursor.h. */
#include "engine/base/json/json_cursor.h"

#include <string.h>

#include "engine/base/utf8.h"

char json_cursor_peek(struct json_cursor *c)
{
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\n' || *c->p == '\t' || *c->p == '\r'))
        c->p++;
    return c->p < c->end ? *c->p : 0;
}

bool json_cursor_take(struct json_cursor *c, char want)
{
    if (json_cursor_peek(c) != want || c->p == c->end)
        return false;
    c->p++;
    return true;
}

int json_cursor_next(struct json_cursor *c, char close, size_t n)
{
    if (json_cursor_take(c, close))
        return 0;
    return n == 0 || json_cursor_take(c, ',') ? 1 : -1;
}

/* The end of the string whose first character is at p, its quote; NULL when it doesn't end. */
static const char *string_end(const char *p, const char *end, bool *escaped)
{
    *escaped = false;
    for (; p < end && *p != '"'; p++)
        if (*p == '\\') {
            *escaped = true;
            p++;
        }
    return p < end ? p : NULL;
}

/* The four digits of \uHHHH, or -1. */
static int32_t hex4(const char *p, const char *end)
{
    int32_t v = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        v = v << 4 | digit;
    }
    return v;
}

/* \uHHHH or a pair of surrogates; *p stands after the u. */
static bool unescape_unicode(const char **p, const char *end, char **out)
{
    int32_t cp = hex4(*p, end);
    if (cp < 0 || (cp >= 0xDC00 && cp < 0xE000))
        return false;
    *p += 4;
    if (cp >= 0xD800 && cp < 0xDC00) {
        int32_t low = end - *p > 6 && (*p)[0] == '\\' && (*p)[1] == 'u' ? hex4(*p + 2, end) : -1;
        if (low < 0xDC00 || low >= 0xE000)
            return false;
        cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
        *p += 6;
    }
    *out += utf8_encode((uint32_t)cp, (unsigned char *)*out);
    return true;
}

static bool unescape(const char *p, const char *end, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    while (p < end) {
        if (*p != '\\') {
            *(*out)++ = *p++;
            continue;
        }
        const char *known = p + 1 < end && p[1] ? strchr(from, p[1]) : NULL;
        if (known) {
            *(*out)++ = to[known - from];
            p += 2;
        } else if (p + 1 < end && p[1] == 'u') {
            p += 2;
            if (!unescape_unicode(&p, end, out))
                return false;
        } else {
            return false;
        }
    }
    return true;
}

bool json_cursor_string(struct json_cursor *c, struct json_span *out)
{
    bool escaped;
    if (!json_cursor_take(c, '"'))
        return false;
    const char *start = c->p, *close = string_end(start, c->end, &escaped);
    if (!close)
        return false;
    c->p = close + 1;
    *out = (struct json_span){start, (size_t)(close - start)};
    if (!escaped)
        return true;
    char *copy = arena_alloc(c->arena, out->len), *to = copy; /* never grows by unescaping */
    if (!copy || !unescape(start, close, &to))
        return false;
    *out = (struct json_span){copy, (size_t)(to - copy)};
    return true;
}

bool json_cursor_key(struct json_cursor *c, struct json_span *out)
{
    return json_cursor_string(c, out) && json_cursor_take(c, ':');
}

bool json_cursor_int(struct json_cursor *c, int64_t max, int64_t *out)
{
    char first = json_cursor_peek(c);
    const char *start = c->p;
    int64_t v = 0;
    while (c->p < c->end && *c->p >= '0' && *c->p <= '9' && v <= max)
        v = v * 10 + (*c->p++ - '0');
    *out = v;
    return c->p > start && v <= max && (first != '0' || c->p == start + 1) &&
           (c->p == c->end || !strchr(".eE0123456789", *c->p));
}

bool json_cursor_skip(struct json_cursor *c)
{
    size_t depth = 0;
    do {
        bool escaped;
        const char *close;
        switch (json_cursor_peek(c)) {
        case 0:
            return false;
        case '"':
            close = string_end(c->p + 1, c->end, &escaped);
            if (!close)
                return false;
            c->p = close + 1;
            break;
        case '{':
        case '[':
            depth++;
            c->p++;
            break;
        case '}':
        case ']':
            if (depth == 0)
                return false;
            depth--;
            c->p++;
            break;
        case ',':
        case ':':
            if (depth == 0)
                return false;
            c->p++;
            break;
        default: /* numbers and names, up to what ends them */
            while (c->p < c->end && *c->p && !strchr(" \n\t\r\"{}[],:", *c->p))
                c->p++;
        }
    } while (depth > 0);
    return true;
}
