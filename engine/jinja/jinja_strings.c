/* Text work that methods and filters share: case, stripping, replacing, sorting. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "engine/jinja/jinja_run.h"

bool jinja_is_space(uint32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* ---- case */

/* Characters whose upper or folded form is more than one: Unicode's SpecialCasing for the Latin
 * ones. */
static const struct {
    uint32_t code;
    const char *upper, *title, *fold;
} special_cases[] = {
    {0xdf, "SS", "Ss", "ss"},
    {0x149, "\xca\xbcN", "\xca\xbcN", "\xca\xbcn"},
    {0x1f0, "J\xcc\x8c", "J\xcc\x8c", "j\xcc\x8c"},
    {0xfb00, "FF", "Ff", "ff"},
    {0xfb01, "FI", "Fi", "fi"},
    {0xfb02, "FL", "Fl", "fl"},
    {0xfb03, "FFI", "Ffi", "ffi"},
    {0xfb04, "FFL", "Ffl", "ffl"},
    {0xfb05, "ST", "St", "st"},
    {0xfb06, "ST", "St", "st"},
    {0x1e9e, NULL, NULL, "ss"},
    {0x130, NULL, NULL, "i\xcc\x87"},
};

static const char *special_case(uint32_t code, int how)
{
    if (code < 0xdf)
        return NULL;
    for (size_t i = 0; i < sizeof special_cases / sizeof *special_cases; i++)
        if (special_cases[i].code == code)
            return how == CASE_UPPER   ? special_cases[i].upper
                   : how == CASE_TITLE ? special_cases[i].title
                   : how == CASE_FOLD  ? special_cases[i].fold
                   : code == 0x130     ? "i\xcc\x87"
                                       : NULL;
    return NULL;
}

static bool is_letter(uint32_t c)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT;
}

static bool is_upper(uint32_t c)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LT;
}

static uint32_t change_code(uint32_t c, int how)
{
    switch (how) {
    case CASE_UPPER:
        return (uint32_t)utf8proc_toupper((utf8proc_int32_t)c);
    case CASE_TITLE:
        return (uint32_t)utf8proc_totitle((utf8proc_int32_t)c);
    default:
        return (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    }
}

static void put_changed(struct jbuilder *b, const struct jstring *s, uint32_t at, uint32_t code,
                        int how)
{
    char out[4];
    const char *special = special_case(code, how);
    if (special)
        jinja_put_like(b, special, strlen(special), s, at);
    else
        jinja_put_like(b, out, jinja_encode(change_code(code, how), out), s, at);
}

struct jvalue jinja_change_case(struct jinja_run *r, const struct jstring *s, int how)
{
    struct jbuilder b;
    jinja_builder_init(&b, r);
    bool inside = false; /* of a word, for title and capitalize */
    for (uint32_t at = 0; at < s->len && !jinja_failed(r);) {
        uint32_t code, n = jinja_decode(s->data + at, s->len - at, &code);
        int this = how;
        if (how == CASE_TITLE || how == CASE_CAPITAL)
            this = inside ? CASE_LOWER : CASE_TITLE;
        else if (how == CASE_SWAP)
            this = is_upper(code) ? CASE_LOWER : CASE_UPPER;
        if (n == 1 && code >= 0x80)
            jinja_put_part(&b, s, at, at + 1); /* ill-formed: as it is */
        else
            put_changed(&b, s, at, code, this);
        inside = how == CASE_CAPITAL || is_letter(code);
        at += n;
    }
    struct jvalue v = jinja_builder_take(&b);
    if (s->markup && !jinja_failed(r))
        v.as.s->markup = true;
    return v;
}

struct jvalue jinja_fold_case(struct jinja_run *r, struct jvalue v)
{
    return v.type == J_STRING ? jinja_change_case(r, v.as.s, CASE_LOWER) : v;
}

/* ---- strip, replace */

static bool is_among(uint32_t code, const struct jstring *chars)
{
    if (!chars)
        return jinja_is_space(code);
    for (uint32_t at = 0; at < chars->len;) {
        uint32_t c, n = jinja_decode(chars->data + at, chars->len - at, &c);
        if (c == code)
            return true;
        at += n;
    }
    return false;
}

struct jvalue jinja_strip(struct jinja_run *r, const struct jstring *s, const struct jstring *chars,
                          int sides)
{
    uint32_t from = 0, to = s->len, code;
    while (sides & STRIP_LEFT && from < to) {
        uint32_t n = jinja_decode(s->data + from, to - from, &code);
        if (!is_among(code, chars))
            break;
        from += n;
    }
    while (sides & STRIP_RIGHT && to > from) {
        uint32_t start = to - 1;
        while (start > from && to - start < 4 && ((unsigned char)s->data[start] & 0xc0) == 0x80)
            start--;
        if (start + jinja_decode(s->data + start, to - start, &code) != to)
            break;
        if (!is_among(code, chars))
            break;
        to = start;
    }
    jinja_charge(r, (s->len - (to - from)) * (chars ? 1 + chars->len / 4 : 1));
    if (from == 0 && to == s->len)
        return (struct jvalue){.type = J_STRING, .as.s = (struct jstring *)s};
    return jinja_part(r, s, from, to);
}

static void replace_nothing(struct jbuilder *b, const struct jstring *s, const struct jstring *to,
                            int64_t max)
{
    for (uint32_t at = 0, n = 0; !jinja_failed(b->r); at += n) {
        if (max-- != 0)
            jinja_put_string(b, to);
        else
            max = 0;
        if (at >= s->len)
            break;
        uint32_t code;
        n = jinja_decode(s->data + at, s->len - at, &code);
        jinja_put_part(b, s, at, at + n);
    }
}

struct jvalue jinja_replace(struct jinja_run *r, const struct jstring *s,
                            const struct jstring *from, const struct jstring *to, int64_t max)
{
    struct jbuilder b;
    jinja_builder_init(&b, r);
    uint32_t at = 0;
    if (from->len == 0) {
        replace_nothing(&b, s, to, max);
        return jinja_builder_take(&b);
    }
    jinja_charge(r, s->len);
    while (max-- != 0 && !jinja_failed(r)) {
        const char *hit = memmem(s->data + at, s->len - at, from->data, from->len);
        if (!hit)
            break;
        jinja_put_part(&b, s, at, (uint32_t)(hit - s->data));
        jinja_put_string(&b, to);
        at = (uint32_t)(hit - s->data) + from->len;
        jinja_step(r, 1);
    }
    jinja_put_part(&b, s, at, s->len);
    struct jvalue v = jinja_builder_take(&b);
    if (s->markup && !jinja_failed(r))
        v.as.s->markup = true;
    return v;
}

/* ---- sort: merging, so that equal items keep their order */

struct sorting {
    struct jinja_run *r;
    struct jvalue *keys;
    uint32_t *from, *to;
    unsigned flags;
};

static void merge(struct sorting *s, uint32_t low, uint32_t mid, uint32_t high)
{
    uint32_t a = low, b = mid, out = low;
    while (a < mid && b < high && !jinja_failed(s->r)) {
        struct jvalue x = s->keys[s->from[a]], y = s->keys[s->from[b]];
        bool same = s->flags & SORT_UNDEFINED && x.type == J_UNDEFINED && y.type == J_UNDEFINED;
        bool second = same                      ? false
                      : s->flags & SORT_REVERSE ? jinja_less(s->r, x, y, "<")
                                                : jinja_less(s->r, y, x, "<");
        s->to[out++] = second ? s->from[b++] : s->from[a++];
    }
    while (a < mid)
        s->to[out++] = s->from[a++];
    while (b < high)
        s->to[out++] = s->from[b++];
}

bool jinja_sort(struct jinja_run *r, struct jvalue *items, struct jvalue *keys, uint32_t n,
                unsigned flags)
{
    if (n < 2 || !jinja_step(r, n))
        return !jinja_failed(r);
    uint32_t *order = jinja_alloc(r, (size_t)n * 2 * sizeof *order);
    struct jvalue *sorted = jinja_alloc(r, n * sizeof *sorted);
    if (!order || !sorted)
        return false;
    struct sorting s = {.r = r, .keys = keys, .from = order, .to = order + n, .flags = flags};
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    for (uint32_t width = 1; width < n; width *= 2) {
        for (uint64_t low = 0; low < n; low += 2 * (uint64_t)width) {
            uint64_t mid = low + width < n ? low + width : n,
                     high = mid + width < n ? mid + width : n;
            merge(&s, (uint32_t)low, (uint32_t)mid, (uint32_t)high);
        }
        uint32_t *swap = s.from;
        s.from = s.to;
        s.to = swap;
    }
    for (uint32_t i = 0; i < n; i++)
        sorted[i] = items[s.from[i]];
    memcpy(items, sorted, n * sizeof *items);
    return !jinja_failed(r);
}
