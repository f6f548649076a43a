/* Repairs UTF-8 and applies NFC. Most text is clean already and is only looked at, not copied. */
#include "engine/tokenizer/normalizer.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "engine/base/utf8.h"

void normalizer_fini(struct normalizer *n)
{
    buf_fini(&n->text);
    free(n->spans);
    free(n->codes);
    free(n->sorted);
    *n = (struct normalizer){0};
}

static void normal_begin(struct normalizer *n)
{
    buf_clear(&n->text);
    n->n_spans = 0;
}

/* Walks the old text's spans as its parts are copied or changed. */
struct carry {
    struct normalizer *n;
    const struct text_view *old;
    size_t at; /* first old span that may still matter */
};

static bool span_add(struct normalizer *n, size_t start, size_t end)
{
    if (start == end)
        return true;
    if (n->n_spans && n->spans[n->n_spans - 1].end >= start) {
        if (n->spans[n->n_spans - 1].end < end)
            n->spans[n->n_spans - 1].end = end;
        return true;
    }
    if (n->n_spans == n->cap_spans) {
        size_t cap = n->cap_spans ? n->cap_spans * 2 : 16;
        struct text_span *p = realloc(n->spans, cap * sizeof *p);
        if (!p)
            return false;
        n->spans = p;
        n->cap_spans = cap;
    }
    n->spans[n->n_spans++] = (struct text_span){start, end};
    return true;
}

/* The old text's [start, end) has become the new text's [to, n->text.len): unchanged, so that spans
 * keep their places, or changed as a whole. */
static bool carry_spans(struct carry *c, size_t start, size_t end, size_t to, bool changed)
{
    const struct text_view *old = c->old;
    while (c->at < old->n_spans && old->spans[c->at].end <= start)
        c->at++;
    for (size_t i = c->at; i < old->n_spans && old->spans[i].start < end; i++) {
        size_t a = old->spans[i].start > start ? old->spans[i].start : start;
        size_t b = old->spans[i].end < end ? old->spans[i].end : end;
        bool ok = a >= b    ? true
                  : changed ? span_add(c->n, to, c->n->text.len)
                            : span_add(c->n, to + (a - start), to + (b - start));
        if (!ok)
            return false;
    }
    return true;
}

static bool copy_part(struct carry *c, size_t start, size_t end)
{
    size_t to = c->n->text.len;
    return start == end || (buf_append(&c->n->text, c->old->text + start, end - start) &&
                            carry_spans(c, start, end, to, false));
}

static void view_new(const struct normalizer *n, struct text_view *view)
{
    *view = (struct text_view){n->text.data ? n->text.data : "", n->text.len, n->spans, n->n_spans};
}

bool normalizer_repair_utf8(struct normalizer *n, struct text_view *view)
{
    const unsigned char *s = (const unsigned char *)view->text;
    size_t valid = utf8_valid(s, view->len);
    if (valid == view->len)
        return true;
    normal_begin(n);
    struct carry c = {n, view, 0};
    for (size_t at = 0; at < view->len;) {
        if (!copy_part(&c, at, at + valid))
            return false;
        at += valid;
        if (at < view->len) {
            size_t part, to = n->text.len;
            utf8_part(s + at, view->len - at, &part);
            if (!buf_append(&n->text, "\xEF\xBF\xBD", 3) ||
                !carry_spans(&c, at, at + part, to, true))
                return false;
            at += part;
        }
        valid = utf8_valid(s + at, view->len - at);
    }
    view_new(n, view);
    return true;
}

static bool codes_reserve(struct normalizer *n, size_t want)
{
    if (want <= n->cap_codes)
        return true;
    size_t cap = n->cap_codes ? n->cap_codes : 256;
    while (cap < want)
        cap *= 2;
    int32_t *p = realloc(n->codes, cap * sizeof *p);
    if (p)
        n->codes = p;
    int32_t *q = p ? realloc(n->sorted, cap * sizeof *q) : NULL;
    if (!q)
        return false;
    n->sorted = q;
    n->cap_codes = cap;
    return true;
}

/* Canonical ordering: each run of combining marks sorted by its class, equal ones in place.
 * Counting, since utf8proc's own sort is quadratic and the run's length is the client's choice. */
static void order_marks(struct normalizer *n, size_t n_codes)
{
    for (size_t i = 0, end; i < n_codes; i = end) {
        bool sorted = true;
        int last = 0;
        for (end = i; end < n_codes; end++) {
            int class = utf8proc_get_property(n->codes[end])->combining_class;
            if (class == 0 && end > i)
                break;
            if (class == 0)
                last = 0;
            sorted = sorted && class >= last;
            last = class;
        }
        if (sorted)
            continue;
        size_t place[257] = {0};
        for (size_t k = i; k < end; k++)
            place[utf8proc_get_property(n->codes[k])->combining_class + 1]++;
        for (int k = 0; k < 256; k++)
            place[k + 1] += place[k];
        for (size_t k = i; k < end; k++)
            n->sorted[place[utf8proc_get_property(n->codes[k])->combining_class]++] = n->codes[k];
        memcpy(n->codes + i, n->sorted, (end - i) * sizeof *n->codes);
    }
}

/* One segment, from a character that stands for itself up to the next such one, to NFC. */
static bool nfc_segment(struct normalizer *n, const unsigned char *s, size_t len)
{
    size_t count = 0;
    for (size_t i = 0; i < len;) {
        uint32_t cp;
        i += utf8_next(s + i, &cp);
        if (!codes_reserve(n, count + 32))
            return false;
        int last = UTF8PROC_BOUNDCLASS_START;
        utf8proc_ssize_t m = utf8proc_decompose_char((utf8proc_int32_t)cp, n->codes + count, 32,
                                                     UTF8PROC_DECOMPOSE, &last);
        if (m < 0 || m > 32) { /* not known to utf8proc: as it is */
            n->codes[count] = (int32_t)cp;
            m = 1;
        }
        count += (size_t)m;
    }
    order_marks(n, count);
    utf8proc_ssize_t left = utf8proc_normalize_utf32(n->codes, (utf8proc_ssize_t)count,
                                                     UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    for (utf8proc_ssize_t i = 0; i < left; i++) {
        unsigned char c[4];
        if (!buf_append(&n->text, c, utf8_encode((uint32_t)n->codes[i], c)))
            return false;
    }
    return left >= 0;
}

/* First place at or after `from` whose segment must be normalized; *start is where that begins. */
static bool nfc_next(const unsigned char *s, size_t len, size_t from, size_t *start, size_t *end)
{
    size_t before = from;
    for (size_t i = from; i < len;) {
        if (s[i] < 0x80) {
            before = i++;
            continue;
        }
        uint32_t cp;
        size_t m = utf8_next(s + i, &cp);
        if (!(unicode_bits(cp) & UNICODE_NFC_INNER)) {
            before = i;
            i += m;
            continue;
        }
        *start = before;
        do {
            i += m;
        } while (i < len && (m = utf8_next(s + i, &cp), unicode_bits(cp) & UNICODE_NFC_INNER));
        *end = i;
        return true;
    }
    return false;
}

bool normalizer_nfc(struct normalizer *n, struct text_view *view)
{
    const unsigned char *s = (const unsigned char *)view->text;
    size_t start, end, done = 0;
    if (!nfc_next(s, view->len, 0, &start, &end))
        return true;
    normal_begin(n);
    struct carry c = {n, view, 0};
    do {
        if (!copy_part(&c, done, start))
            return false;
        size_t to = n->text.len;
        if (!nfc_segment(n, s + start, end - start))
            return false;
        bool changed = n->text.len - to != end - start ||
                       memcmp(n->text.data + to, s + start, end - start) != 0;
        if (!carry_spans(&c, start, end, to, changed))
            return false;
        done = end;
    } while (nfc_next(s, view->len, done, &start, &end));
    if (!copy_part(&c, done, view->len))
        return false;
    view_new(n, view);
    return true;
}

bool normalizer_prefix_space(struct normalizer *n, struct text_view *view)
{
    if (view->len == 0 || view->text[0] == ' ')
        return true;
    normal_begin(n);
    struct carry c = {n, view, 0};
    if (!buf_putc(&n->text, ' ') || !copy_part(&c, 0, view->len))
        return false;
    view_new(n, view);
    return true;
}
