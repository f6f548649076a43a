/* UTF-8 and the classes of code points that pre-tokenizers ask for (Unicode 16, as Hugging Face
 * `tokenizers` sees them). Pure functions over static tables; thread-safe. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum unicode_class { /* disjoint; \p{L} is the first five after OTHER */
                     UNICODE_OTHER,
                     UNICODE_LU,
                     UNICODE_LL,
                     UNICODE_LT,
                     UNICODE_LM,
                     UNICODE_LO,
                     UNICODE_M,
                     UNICODE_N,
                     UNICODE_P,
                     UNICODE_S,
                     UNICODE_SPACE, /* the White_Space property */
                     UNICODE__N
};
enum { UNICODE_BLOCK = 128, UNICODE_MAX = 0x10FFFF };
enum unicode_bit {
    UNICODE_CLASS_MASK = 15,
    UNICODE_NFC_INNER = 16,  /* may join or reorder with what stands before it, or is not in NFC */
    UNICODE_PCRE_WRONG = 32, /* PCRE2 10.42's tables know another class */
};
extern const uint16_t unicode_index[8704];
extern const uint8_t unicode_blocks[264][UNICODE_BLOCK];

/* unicode_bit flags and class of a code point up to UNICODE_MAX. */
static inline uint8_t unicode_bits(uint32_t cp)
{
    return unicode_blocks[unicode_index[cp / UNICODE_BLOCK]][cp % UNICODE_BLOCK];
}

static inline enum unicode_class unicode_class(uint32_t cp)
{
    return (enum unicode_class)(unicode_bits(cp) & UNICODE_CLASS_MASK);
}

/* Next character of well-formed UTF-8; returns its length. */
static inline size_t utf8_next(const unsigned char *p, uint32_t *cp)
{
    if (p[0] < 0x80) {
        *cp = p[0];
        return 1;
    }
    if (p[0] < 0xE0) {
        *cp = (uint32_t)(p[0] & 31) << 6 | (p[1] & 63);
        return 2;
    }
    if (p[0] < 0xF0) {
        *cp = (uint32_t)(p[0] & 15) << 12 | (uint32_t)(p[1] & 63) << 6 | (p[2] & 63);
        return 3;
    }
    *cp = (uint32_t)(p[0] & 7) << 18 | (uint32_t)(p[1] & 63) << 12 | (uint32_t)(p[2] & 63) << 6 |
          (p[3] & 63);
    return 4;
}

/* Last character of the well-formed text that ends at p; returns its length. */
static inline size_t utf8_prev(const unsigned char *p, uint32_t *cp)
{
    const unsigned char *q = p - 1;
    while ((*q & 0xC0) == 0x80)
        q--;
    return utf8_next(q, cp);
}

enum utf8_part {
    UTF8_WHOLE, /* a well-formed character */
    UTF8_BAD,   /* a maximal ill-formed part (Unicode chapter 3, U+FFFD by best practice) */
    UTF8_CUT,   /* the input ends inside what may still become a character */
};
/* Looks at the beginning of s (len > 0); *n is the part's length, 1 to 4. */
enum utf8_part utf8_part(const unsigned char *s, size_t len, size_t *n);
/* How many bytes at the beginning are well-formed. */
size_t utf8_valid(const unsigned char *s, size_t len);
/* Writes 1 to 4 bytes; cp must be a scalar value. */
size_t utf8_encode(uint32_t cp, unsigned char out[4]);
