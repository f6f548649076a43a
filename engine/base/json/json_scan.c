/* Checks a JSON text in one pass with an explicit stack, without recursion; duplicate keys are
 * found by a hash set per open object. */
#include "engine/base/json/json_scan.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/hash.h"
#include "engine/base/json/json_repair.h"

struct key { /* one key of an open object */
    uint64_t hash;
    uint32_t level; /* serial of the open object it belongs to; 0: free place */
};

struct scan {
    const char *text, *p, *end;
    const struct json_limits *limits;
    struct err *e;
    char stack[1024];      /* '{' or '[' per level */
    uint32_t serial[1024]; /* a number per open object, so that siblings differ */
    int depth;
    uint32_t n_serial;
    struct key *keys; /* open addressing, grown by doubling; keys of closed objects stay, their
                         serial is dead */
    size_t n_keys, cap_keys;
    struct buf name; /* the decoded key */
};

static bool fail(struct scan *s, const char *what)
{
    int line = 1, column = 1;
    for (const char *p = s->text; p < s->p; p++) {
        column++;
        if (*p == '\n') {
            line++;
            column = 1;
        }
    }
    return err_set(s->e, ERR_INPUT, "JSON line %d column %d: %s", line, column, what);
}

/* Faults of a string whose syntax is right: the error names its field. */
static bool fail_field(struct scan *s, const char *what)
{
    fail(s, what);
    if (s->e)
        json_path(s->text, (size_t)(s->p - s->text), s->e->field, sizeof s->e->field);
    return false;
}

static void skip_space(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
        s->p++;
}

static int hex4(const char *p, const char *end)
{
    int v = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0)
            return -1;
        v = v << 4 | d;
    }
    return v;
}

static void put_utf8(struct buf *b, unsigned c)
{
    char t[4];
    int n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, c >>= 6)
        t[i] = (char)(0x80 | (c & 0x3F));
    t[0] = (char)(n == 1 ? c : c | (0xF00u >> n & 0xFF));
    buf_append(b, t, (size_t)n);
}

/* After "\u": one code unit or a surrogate pair. */
static bool scan_unicode(struct scan *s, struct buf *out)
{
    int unit = hex4(s->p, s->end);
    if (unit < 0)
        return fail(s, "bad \\u escape");
    if (unit == 0 && !s->limits->allow_nul)
        return fail_field(s, "\\u0000 is not allowed");
    if (unit >= 0xDC00 && unit <= 0xDFFF)
        return fail_field(s, "lone surrogate");
    if (unit < 0xD800 || unit > 0xDBFF) {
        s->p += 4;
        if (out)
            put_utf8(out, (unsigned)unit);
        return true;
    }
    int low =
        s->end - s->p >= 10 && s->p[4] == '\\' && s->p[5] == 'u' ? hex4(s->p + 6, s->end) : -1;
    if (low < 0xDC00 || low > 0xDFFF)
        return fail_field(s, "lone surrogate");
    s->p += 10;
    if (out)
        put_utf8(out, 0x10000u + (((unsigned)unit - 0xD800u) << 10) + ((unsigned)low - 0xDC00u));
    return true;
}

static bool scan_escape(struct scan *s, struct buf *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (++s->p >= s->end)
        return fail(s, "text ends in a string");
    char c = *s->p++;
    if (c == 'u')
        return scan_unicode(s, out);
    const char *at = c ? strchr(from, c) : NULL;
    if (!at)
        return fail(s, "bad escape in a string");
    if (out)
        buf_putc(out, to[at - from]);
    return true;
}

/* Bytes of the well-formed multi-byte character at p, or 0 (Unicode table 3-7). */
static int utf8_length(const unsigned char *p, ptrdiff_t n)
{
    unsigned char c = p[0];
    int len = c >= 0xC2 && c <= 0xDF ? 2 : (c & 0xF0) == 0xE0 ? 3 : c >= 0xF0 && c <= 0xF4 ? 4 : 0;
    if (!len || n < len)
        return 0;
    for (int i = 1; i < len; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    bool bad = (c == 0xE0 && p[1] < 0xA0) || (c == 0xED && p[1] > 0x9F) ||
               (c == 0xF0 && p[1] < 0x90) || (c == 0xF4 && p[1] > 0x8F);
    return bad ? 0 : len;
}

/* At the opening quote; out (may be NULL) gets the decoded text. */
static bool scan_string(struct scan *s, struct buf *out)
{
    s->p++;
    while (s->p < s->end) {
        unsigned char c = (unsigned char)*s->p;
        if (c == '"') {
            s->p++;
            return true;
        }
        if (c == '\\') {
            if (!scan_escape(s, out))
                return false;
            continue;
        }
        if (c < 0x20)
            return fail_field(s, "control character in a string");
        int n = c < 0x80 ? 1 : utf8_length((const unsigned char *)s->p, s->end - s->p);
        if (!n)
            return fail_field(s, "invalid UTF-8");
        if (out)
            buf_append(out, s->p, (size_t)n);
        s->p += n;
    }
    return fail(s, "text ends in a string");
}

static bool digits(struct scan *s)
{
    const char *start = s->p;
    while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
        s->p++;
    return s->p > start;
}

static bool scan_number(struct scan *s)
{
    const char *start = s->p;
    if (*s->p == '-')
        s->p++;
    bool zero = s->p < s->end && *s->p == '0';
    if (!digits(s))
        return fail(s, "not a value");
    if (zero && s->p - start > (*start == '-') + 1)
        return fail(s, "number with a leading zero");
    if (s->p < s->end && *s->p == '.') {
        s->p++;
        if (!digits(s))
            return fail(s, "number without digits after the point");
    }
    if (s->p < s->end && (*s->p == 'e' || *s->p == 'E')) {
        s->p++;
        if (s->p < s->end && (*s->p == '+' || *s->p == '-'))
            s->p++;
        if (!digits(s))
            return fail(s, "number without an exponent");
    }
    char text[64];
    size_t n = (size_t)(s->p - start);
    if (n >= sizeof text)
        return fail(s, "number of more than 63 characters");
    memcpy(text, start, n);
    text[n] = '\0';
    return isfinite(strtod(text, NULL)) || fail(s, "number out of range");
}

static bool grow_keys(struct scan *s)
{
    size_t cap = s->cap_keys ? s->cap_keys * 2 : 256;
    struct key *keys = calloc(cap, sizeof *keys);
    if (!keys)
        return err_set(s->e, ERR_NOMEM, "out of memory while reading JSON");
    for (size_t i = 0; i < s->cap_keys; i++) {
        if (!s->keys[i].level)
            continue;
        size_t at = s->keys[i].hash & (cap - 1);
        while (keys[at].level)
            at = (at + 1) & (cap - 1);
        keys[at] = s->keys[i];
    }
    free(s->keys);
    s->keys = keys;
    s->cap_keys = cap;
    return true;
}

/* The decoded key is in s->name. Equal 64-bit hashes count as equal keys: a false refusal is one in
 * 2^64. */
static bool remember_key(struct scan *s)
{
    if (s->limits->allow_duplicates)
        return true;
    if (s->name.failed)
        return err_set(s->e, ERR_NOMEM, "out of memory while reading JSON");
    uint32_t level = s->serial[s->depth - 1];
    uint64_t h = hash64(s->name.data ? s->name.data : "", s->name.len, level);
    if (s->n_keys * 2 >= s->cap_keys && !grow_keys(s))
        return false;
    size_t at = h & (s->cap_keys - 1);
    for (; s->keys[at].level; at = (at + 1) & (s->cap_keys - 1))
        if (s->keys[at].hash == h && s->keys[at].level == level)
            return fail(s, "duplicate key");
    s->keys[at] = (struct key){.hash = h, .level = level};
    s->n_keys++;
    return true;
}

/* After '{' or ',' in an object: key and colon. */
static bool scan_key(struct scan *s)
{
    skip_space(s);
    if (s->p >= s->end || *s->p != '"')
        return fail(s, "a key in quotes is missing");
    buf_clear(&s->name);
    if (!scan_string(s, &s->name) || !remember_key(s))
        return false;
    skip_space(s);
    if (s->p >= s->end || *s->p != ':')
        return fail(s, "':' is missing");
    s->p++;
    return true;
}

static bool scan_word(struct scan *s, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n))
        return fail(s, "not a value");
    s->p += n;
    return true;
}

static bool open_level(struct scan *s)
{
    if (s->depth >= s->limits->max_depth)
        return fail(s, "nested too deep");
    s->serial[s->depth] = ++s->n_serial;
    s->stack[s->depth++] = *s->p++;
    return true;
}

/* One value without its members; *opened: a non-empty container begins. */
static bool scan_start(struct scan *s, bool *opened)
{
    *opened = false;
    skip_space(s);
    if (s->p >= s->end)
        return fail(s, "a value is missing");
    switch (*s->p) {
    case '"':
        return scan_string(s, NULL);
    case 't':
        return scan_word(s, "true");
    case 'f':
        return scan_word(s, "false");
    case 'n':
        return scan_word(s, "null");
    case '{':
    case '[':
        break;
    default:
        return scan_number(s);
    }
    char close = *s->p == '{' ? '}' : ']';
    if (!open_level(s))
        return false;
    skip_space(s);
    if (s->p < s->end && *s->p == close) {
        s->p++;
        s->depth--;
        return true;
    }
    *opened = true;
    return close == ']' || scan_key(s);
}

/* After a value: closes what ends here. *more: another value follows. */
static bool scan_end(struct scan *s, bool *more)
{
    *more = false;
    while (s->depth) {
        skip_space(s);
        char kind = s->stack[s->depth - 1];
        if (s->p >= s->end)
            return fail(s, "text ends inside a value");
        if (*s->p == ',') {
            s->p++;
            *more = true;
            return kind == '[' || scan_key(s);
        }
        if (*s->p != (kind == '{' ? '}' : ']'))
            return fail(s, "',' or the closing bracket is missing");
        s->p++;
        s->depth--;
    }
    skip_space(s);
    return s->p == s->end || fail(s, "bytes after the value");
}

bool json_scan(const char *text, size_t len, const struct json_limits *l, struct err *e)
{
    struct scan s = {.text = text, .p = text, .end = text + len, .limits = l, .e = e};
    bool ok, opened, more = true;
    do {
        ok = scan_start(&s, &opened);
        if (ok && !opened)
            ok = scan_end(&s, &more);
    } while (ok && more);
    free(s.keys);
    buf_fini(&s.name);
    return ok;
}
