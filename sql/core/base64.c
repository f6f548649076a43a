/* libsodium's decoder, made lenient about missing padding, blanks and line ends. */
#include "sql/core/base64.h"

#include <sodium.h>
#include <string.h>

bool base64_decode(const char *text, size_t len, unsigned char *out, size_t size, size_t *n)
{
    const char *end = NULL;
    while (len && strchr("= \r\n", text[len - 1]))
        len--;
    return sodium_base642bin(out, size, text, len, " \r\n", n, &end,
                             sodium_base64_VARIANT_ORIGINAL_NO_PADDING) == 0 &&
           end == text + len;
}

bool base64_decode_url(const char *text, size_t len, unsigned char *out, size_t size, size_t *n)
{
    const char *end = NULL;
    return sodium_base642bin(out, size, text, len, NULL, n, &end,
                             sodium_base64_VARIANT_URLSAFE_NO_PADDING) == 0 &&
           end == text + len;
}

void base64_encode_url(const unsigned char *bytes, size_t len, char *out, size_t size)
{
    sodium_bin2base64(out, size, bytes, len, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

void base64_encode(const unsigned char *bytes, size_t len, char *out, size_t size)
{
    sodium_bin2base64(out, size, bytes, len, sodium_base64_VARIANT_ORIGINAL);
}
