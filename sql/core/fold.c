/* Case folding by utf8proc, and a Knuth-Morris-Pratt search over folded letters, whose time grows
 * with the text alone. */
#include "sql/core/fold.h"

#include <utf8proc.h>

/* One letter of `text`, folded; its length in bytes. */
static size_t next_letter(const char *text, size_t len, int32_t *letter)
{
    const unsigned char first = (unsigned char)*text;
    if (first < 0x80) {
        *letter = first >= 'A' && first <= 'Z' ? first + 32 : first;
        return 1;
    }
    utf8proc_int32_t code, folded[4];
    const utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text,
                                                (utf8proc_ssize_t)(len < 4 ? len : 4), &code);
    if (n <= 0) {
        *letter = -(int32_t)first; /* no letter has this */
        return 1;
    }
    /* Full folding of one letter to one (final sigma, long s); where it gives several, only the
     * small letter. */
    const utf8proc_ssize_t m = utf8proc_decompose_char(code, folded, 4, UTF8PROC_CASEFOLD, NULL);
    *letter = m == 1 ? folded[0] : utf8proc_tolower(code);
    return (size_t)n;
}

bool fold_needle(struct fold_needle *needle, const char *text, size_t len)
{
    needle->n = 0;
    for (size_t i = 0; i < len;) {
        if (needle->n == FOLD_LETTERS)
            return false;
        i += next_letter(text + i, len - i, &needle->letters[needle->n++]);
    }
    for (int i = 0, k = 0; i < needle->n; i++) {
        while (i && k && needle->letters[i] != needle->letters[k])
            k = needle->shorter[k - 1];
        if (i && needle->letters[i] == needle->letters[k])
            k++;
        needle->shorter[i] = k;
    }
    for (int byte = 0; byte < 256; byte++) {
        const char c = (char)byte;
        int32_t letter;
        needle->may_begin[byte] = byte >= 0x80 || !needle->n ||
                                  (next_letter(&c, 1, &letter) && letter == needle->letters[0]);
    }
    return true;
}

/* The start of the match that ends at `end`: so many letters back. */
static size_t start_of(const char *text, size_t end, int letters)
{
    while (letters-- > 0) {
        size_t step = 1;
        while (step < 4 && step < end && ((unsigned char)text[end - step] & 0xc0) == 0x80)
            step++;
        int32_t letter;
        end -= next_letter(text + end - step, step, &letter) == step
                   ? step
                   : 1; /* a stray byte is a letter of its own */
    }
    return end;
}

bool fold_find(const struct fold_needle *needle, const char *text, size_t len, size_t *at,
               size_t *bytes)
{
    int k = 0;
    *at = *bytes = 0;
    if (!needle->n)
        return true;
    for (size_t i = 0; i < len;) {
        int32_t letter;
        if (!k) { /* most of a text is passed over here */
            while (i < len && !needle->may_begin[(unsigned char)text[i]])
                i++;
            if (i == len)
                return false;
        }
        i += next_letter(text + i, len - i, &letter);
        while (k && needle->letters[k] != letter)
            k = needle->shorter[k - 1];
        if (needle->letters[k] == letter)
            k++;
        if (k == needle->n) {
            *at = start_of(text, i, needle->n);
            *bytes = i - *at;
            return true;
        }
    }
    return false;
}

char *fold_whole(const char *text)
{
    utf8proc_uint8_t *folded = NULL;
    const utf8proc_option_t options =
        UTF8PROC_NULLTERM | UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD;
    return utf8proc_map((const utf8proc_uint8_t *)text, 0, &folded, options) < 0 ? NULL
                                                                                 : (char *)folded;
}
