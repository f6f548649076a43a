/* Joins the bytes of tokens into whole UTF-8 characters; an incomplete character is held until the
 * next token decides it. */
#include "engine/tokenizer/detokenizer.h"

#include <string.h>

#include "engine/base/utf8.h"

static const char replacement[3] = "\xEF\xBF\xBD";

void detokenizer_init(struct detokenizer *d, const struct vocab *v, bool special_text)
{
    *d = (struct detokenizer){.vocab = v, .special_text = special_text};
}

/* Lets out of `pending` what is decided: whole characters, and U+FFFD for each part that can't be
 * one. */
static bool settle(struct detokenizer *d, struct buf *out)
{
    while (d->n_pending > 0) {
        size_t n;
        /* Half a surrogate can't become a character either, but is held until its third byte, as
         * Python's incremental decoder does: the streams are compared with it. */
        if (d->n_pending == 2 && d->pending[0] == 0xED && d->pending[1] >= 0xA0 &&
            d->pending[1] <= 0xBF)
            return true;
        enum utf8_part part = utf8_part(d->pending, (size_t)d->n_pending, &n);
        if (part == UTF8_CUT)
            return true;
        if (!(part == UTF8_WHOLE ? buf_append(out, d->pending, n)
                                 : buf_append(out, replacement, sizeof replacement)))
            return false;
        d->n_pending -= (int)n;
        memmove(d->pending, d->pending + n, (size_t)d->n_pending);
    }
    return true;
}

bool detokenizer_push(struct detokenizer *d, int32_t id, struct buf *out)
{
    size_t len, i = 0;
    const unsigned char *p = (const unsigned char *)vocab_bytes(d->vocab, id, &len);
    if (!d->special_text && vocab_flags(d->vocab, id) & VOCAB_SPECIAL)
        return true;
    while (i < len) {
        if (d->n_pending == 0) {
            size_t whole = utf8_valid(p + i, len - i);
            if (whole && !buf_append(out, p + i, whole))
                return false;
            i += whole;
            if (i == len)
                break;
        }
        d->pending[d->n_pending++] = p[i++];
        if (!settle(d, out))
            return false;
    }
    return true;
}

bool detokenizer_flush(struct detokenizer *d, struct buf *out)
{
    bool ok = true;
    for (size_t at = 0, n; at < (size_t)d->n_pending; at += n) {
        utf8_part(d->pending + at, (size_t)d->n_pending - at, &n);
        ok = buf_append(out, replacement, sizeof replacement) && ok;
    }
    d->n_pending = 0;
    return ok;
}
