/* Searches text for added tokens by binary search in the vocabulary's sorted list. */
#include "engine/tokenizer/added_tokens.h"

#include <string.h>
#include <utf8proc.h>

#include "engine/base/utf8.h"
#include "engine/tokenizer/vocab_image.h"
#include "engine/tokenizer/vocab_source.h"

void added_tokens_init(struct added_tokens *s, const struct vocab *v, bool normalized)
{
    *s = (struct added_tokens){.vocab = v, .normalized = normalized};
    for (uint32_t i = 0; i < v->n_added; i++) {
        const struct vocab_image_added *a = &v->added[i];
        if (!(a->flags & VOCAB_ADDED_NORMALIZED) == !normalized) {
            s->any = true;
            s->first[(unsigned char)v->text[a->offset]] = true;
        }
    }
}

/* The longest token of the pass at p, of at most `len` bytes. The list is sorted by bytes, so the
 * ones that share a beginning stand together: each byte narrows the range [lo, hi). */
static const struct vocab_image_added *longest(const struct added_tokens *s, const char *p,
                                               size_t len)
{
    const struct vocab *v = s->vocab;
    const struct vocab_image_added *found = NULL;
    uint32_t lo = 0, hi = v->n_added;
    for (size_t depth = 0; depth < len && lo < hi; depth++) {
        unsigned char c = (unsigned char)p[depth];
        uint32_t a = lo, b = hi; /* first whose byte at depth is >= c; shorter ones come before */
        while (a < b) {
            uint32_t mid = a + (b - a) / 2;
            const struct vocab_image_added *t = &v->added[mid];
            if (t->len <= depth || (unsigned char)v->text[t->offset + depth] < c)
                a = mid + 1;
            else
                b = mid;
        }
        lo = a;
        b = hi;
        while (a < b) {
            uint32_t mid = a + (b - a) / 2;
            if ((unsigned char)v->text[v->added[mid].offset + depth] <= c)
                a = mid + 1;
            else
                b = mid;
        }
        hi = a;
        for (uint32_t i = lo; i < hi && v->added[i].len == depth + 1; i++)
            if (!(v->added[i].flags & VOCAB_ADDED_NORMALIZED) == !s->normalized)
                found = &v->added[i];
    }
    return found;
}

/* \w of Rust's regular expressions, but for the enclosed letters. */
static bool is_word(uint32_t cp)
{
    enum unicode_class c = unicode_class(cp);
    if (c == UNICODE_N)
        return utf8proc_category((utf8proc_int32_t)cp) != UTF8PROC_CATEGORY_NO;
    if (c == UNICODE_P)
        return utf8proc_category((utf8proc_int32_t)cp) == UTF8PROC_CATEGORY_PC;
    return (c >= UNICODE_LU && c <= UNICODE_M) || cp == 0x200C || cp == 0x200D;
}

static bool stands_alone(const struct text_view *view, size_t start, size_t end)
{
    const unsigned char *t = (const unsigned char *)view->text;
    uint32_t cp;
    if (start > 0 && (utf8_prev(t + start, &cp), is_word(cp)))
        return false;
    return end == view->len || (utf8_next(t + end, &cp), !is_word(cp));
}

static void take_space(const struct text_view *view, unsigned flags, size_t from,
                       struct added_token_match *m)
{
    const unsigned char *t = (const unsigned char *)view->text;
    uint32_t cp;
    if (flags & VOCAB_ADDED_LSTRIP)
        for (size_t n; m->start > from &&
                       (n = utf8_prev(t + m->start, &cp), unicode_class(cp) == UNICODE_SPACE);)
            m->start -= n;
    if (flags & VOCAB_ADDED_RSTRIP)
        for (size_t n; m->end < view->len &&
                       (n = utf8_next(t + m->end, &cp), unicode_class(cp) == UNICODE_SPACE);)
            m->end += n;
}

bool added_tokens_find(const struct added_tokens *s, const struct text_view *view, size_t from,
                       struct added_token_match *m)
{
    if (!s->any)
        return false;
    size_t span = 0; /* first untrusted span that ends after i */
    for (size_t i = from; i < view->len;) {
        if (!s->first[(unsigned char)view->text[i]]) {
            i++;
            continue;
        }
        while (span < view->n_spans && view->spans[span].end <= i)
            span++;
        size_t limit = span < view->n_spans ? view->spans[span].start : view->len;
        if (limit <= i) {
            i = view->spans[span].end;
            continue;
        }
        const struct vocab_image_added *t = longest(s, view->text + i, limit - i);
        if (!t) {
            i++;
            continue;
        }
        *m = (struct added_token_match){i, i + t->len, t->id};
        if (!(t->flags & VOCAB_ADDED_WORD) || stands_alone(view, m->start, m->end)) {
            take_space(view, t->flags, from, m);
            return true;
        }
        i += t->len;
    }
    return false;
}
