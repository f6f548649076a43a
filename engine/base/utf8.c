/* Well-formedness of UTF-8, by the table of Unicode chapter 3. */
#include "engine/base/utf8.h"

#include <string.h>

/* The allowed second bytes are what makes overlong forms and surrogates ill-formed. */
static size_t sequence(unsigned char lead, unsigned char *lo, unsigned char *hi)
{
    *lo = 0x80;
    *hi = 0xBF;
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2)
        return 0;
    if (lead < 0xE0)
        return 2;
    if (lead < 0xF0) {
        *lo = lead == 0xE0 ? 0xA0 : 0x80;
        *hi = lead == 0xED ? 0x9F : 0xBF;
        return 3;
    }
    if (lead < 0xF5) {
        *lo = lead == 0xF0 ? 0x90 : 0x80;
        *hi = lead == 0xF4 ? 0x8F : 0xBF;
        return 4;
    }
    return 0;
}

enum utf8_part utf8_part(const unsigned char *s, size_t len, size_t *n)
{
    unsigned char lo, hi;
    size_t want = sequence(s[0], &lo, &hi);
    *n = 1;
    if (want == 0)
        return UTF8_BAD;
    for (size_t i = 1; i < want; i++, lo = 0x80, hi = 0xBF) {
        if (i == len)
            return UTF8_CUT;
        if (s[i] < lo || s[i] > hi)
            return UTF8_BAD;
        *n = i + 1;
    }
    return UTF8_WHOLE;
}

size_t utf8_valid(const unsigned char *s, size_t len)
{
    size_t i = 0;
    while (i < len) {
        uint64_t w;
        while (i + 8 <= len && (memcpy(&w, s + i, 8), !(w & 0x8080808080808080u)))
            i += 8;
        if (i == len)
            break;
        size_t n;
        if (utf8_part(s + i, len - i, &n) != UTF8_WHOLE)
            break;
        i += n;
    }
    return i;
}

size_t utf8_encode(uint32_t cp, unsigned char out[4])
{
    if (cp < 0x80) {
        out[0] = (unsigned char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (unsigned char)(0xC0 | cp >> 6);
        out[1] = (unsigned char)(0x80 | (cp & 63));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (unsigned char)(0xE0 | cp >> 12);
        out[1] = (unsigned char)(0x80 | (cp >> 6 & 63));
        out[2] = (unsigned char)(0x80 | (cp & 63));
        return 3;
    }
    out[0] = (unsigned char)(0xF0 | cp >> 18);
    out[1] = (unsigned char)(0x80 | (cp >> 12 & 63));
    out[2] = (unsigned char)(0x80 | (cp >> 6 & 63));
    out[3] = (unsigned char)(0x80 | (cp & 63));
    return 4;
}
