/* Appends to growing buffers and escapes JSON strings. The first failure is kept in the buffer, so
 * that a chain of appends needs one check at its end. */
#include "engine/base/buf.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_fini(struct buf *b)
{
    free(b->data);
    *b = (struct buf){0};
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = '\0';
}

bool buf_reserve(struct buf *b, size_t more)
{
    if (b->failed)
        return false;
    size_t limit = b->limit ? b->limit : SIZE_MAX / 4;
    if (more > limit || b->len > limit - more) {
        b->failed = true;
        return false;
    }
    size_t need = b->len + more + 1;
    if (need <= b->cap)
        return true;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need)
        cap *= 2;
    char *data = realloc(b->data, cap);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

bool buf_append(struct buf *b, const void *data, size_t len)
{
    if (!buf_reserve(b, len))
        return false;
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
    return true;
}

bool buf_puts(struct buf *b, const char *s)
{
    return buf_append(b, s, strlen(s));
}

bool buf_putc(struct buf *b, char c)
{
    return buf_append(b, &c, 1);
}

bool buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    const size_t room = b->failed || !b->data ? 0 : b->cap - b->len;
    int n = vsnprintf(room ? b->data + b->len : NULL, room, fmt, ap);
    va_end(ap);
    if (n < 0)
        b->failed = true;
    if (n >= 0 && buf_reserve(b, (size_t)n)) {
        if ((size_t)n >= room) /* it was cut */
            vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    } else if (room) {
        b->data[b->len] = '\0';
    }
    va_end(again);
    return !b->failed;
}

bool buf_ends_with(const struct buf *b, char c)
{
    return b->len && b->data[b->len - 1] == c;
}

void buf_consume(struct buf *b, size_t n)
{
    if (!n)
        return;
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
    b->data[b->len] = '\0';
}

/* Length of the well-formed UTF-8 character at s (Unicode table 3-7), or minus the length of the
 * maximal ill-formed part. n >= 1. */
static int utf8_step(const unsigned char *s, size_t n)
{
    unsigned char c = s[0], low = 0x80, high = 0xBF;
    int want;
    if (c < 0x80)
        return 1;
    if (c >= 0xC2 && c <= 0xDF)
        want = 1;
    else if (c >= 0xE0 && c <= 0xEF)
        want = 2;
    else if (c >= 0xF0 && c <= 0xF4)
        want = 3;
    else
        return -1;
    if (c == 0xE0)
        low = 0xA0;
    else if (c == 0xED)
        high = 0x9F;
    else if (c == 0xF0)
        low = 0x90;
    else if (c == 0xF4)
        high = 0x8F;
    for (int i = 1; i <= want; i++) {
        if ((size_t)i >= n || s[i] < low || s[i] > high)
            return -i;
        low = 0x80;
        high = 0xBF;
    }
    return want + 1;
}

static bool escape_ascii(struct buf *b, unsigned char c)
{
    switch (c) {
    case '"':
        return buf_append(b, "\\\"", 2);
    case '\\':
        return buf_append(b, "\\\\", 2);
    case '\n':
        return buf_append(b, "\\n", 2);
    case '\r':
        return buf_append(b, "\\r", 2);
    case '\t':
        return buf_append(b, "\\t", 2);
    case '\b':
        return buf_append(b, "\\b", 2);
    case '\f':
        return buf_append(b, "\\f", 2);
    default:
        return buf_printf(b, "\\u%04x", c);
    }
}

bool buf_json_piece(struct buf *b, const char *s, size_t len)
{
    const unsigned char *p = (const unsigned char *)s, *end = p + len, *plain = p;
    while (p < end) {
        while (p < end && *p >= 0x20 && *p < 0x7F && *p != '"' && *p != '\\')
            p++;
        if (p == end)
            break;
        bool escape = *p < 0x20 || *p == '"' || *p == '\\' || *p == 0x7F;
        int step = escape ? 1 : utf8_step(p, (size_t)(end - p));
        bool separator = step == 3 && p[0] == 0xE2 && p[1] == 0x80 && (p[2] & 0xFE) == 0xA8;
        if (!escape && step > 0 && !separator) {
            p += step;
            continue;
        }
        buf_append(b, plain, (size_t)(p - plain));
        if (escape)
            escape_ascii(b, *p);
        else if (separator)
            buf_puts(b, p[2] == 0xA8 ? "\\u2028" : "\\u2029");
        else
            buf_puts(b, "\xEF\xBF\xBD");
        p += step > 0 ? step : -step;
        plain = p;
    }
    return buf_append(b, plain, (size_t)(p - plain));
}

bool buf_json_string(struct buf *b, const char *s, size_t len)
{
    buf_putc(b, '"');
    buf_json_piece(b, s, len);
    return buf_putc(b, '"');
}

bool buf_json_member(struct buf *b, const char *name, const char *text)
{
    buf_printf(b, ",\"%s\":", name);
    return text ? buf_json_string(b, text, strlen(text)) : buf_puts(b, "null");
}

bool buf_json_number(struct buf *b, double v)
{
    if (!isfinite(v))
        return buf_puts(b, "null");
    if (v == floor(v) && fabs(v) < 9007199254740992.0)
        return buf_printf(b, "%.0f", v);
    char text[32];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    return buf_puts(b, text);
}
