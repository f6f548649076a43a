/* Base64 (RFC 4648, the usual alphabet) to bytes and back; libsodium behind it. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Room for what `len` characters can hold. */
#define BASE64_BYTES(len) ((len) / 4 * 3 + 3)
/* Padding may be missing; line ends and blanks are passed over. False: something else is in it, or
 * it needs more than `size`. */
bool base64_decode(const char *text, size_t len, unsigned char *out, size_t size, size_t *n);
/* The same in the alphabet of URLs, strictly: no padding, no blanks, no spare bits. */
bool base64_decode_url(const char *text, size_t len, unsigned char *out, size_t size, size_t *n);
/* Room for what `len` bytes become, with padding and a NUL. */
#define BASE64_CHARS(len) (((len) + 2) / 3 * 4 + 1)
void base64_encode_url(const unsigned char *bytes, size_t len, char *out,
                       size_t size); /* without padding */
void base64_encode(const unsigned char *bytes, size_t len, char *out, size_t size);
