/* webauthn.h: CBOR that libcbor may be given. Its version 0.8 takes memory for as many entries as
 * an array or a map only announces, gigabytes for five bytes, so that each head is looked at
 * before. */
#include "fcgi/webauthn/webauthn.h"

#define ENTRIES_MAX 32 /* a key has five, extensions have a few */
#define HEADS_MAX 256

enum { CBOR_BYTES = 2, CBOR_TEXT = 3, CBOR_ARRAY = 4, CBOR_MAP = 5 };

/* Heads follow each other in one row, however deep what they open is nested; lengths without an
 * end, which authenticators never send, are refused. */
bool webauthn_cbor_is_small(struct webauthn_bytes b)
{
    size_t at = 0;
    for (int heads = 0; at < b.len; heads++) {
        const unsigned char major = b.data[at] >> 5, extra = b.data[at] & 31;
        const size_t n_bytes = extra < 24 ? 0 : (size_t)1 << (extra - 24);
        uint64_t n = extra;
        at++;
        if (heads == HEADS_MAX || extra > 27 || n_bytes > b.len - at)
            return false;
        if (n_bytes)
            n = 0;
        for (size_t i = 0; i < n_bytes; i++)
            n = n << 8 | b.data[at++];
        if ((major == CBOR_ARRAY || major == CBOR_MAP) && n > ENTRIES_MAX)
            return false;
        if (major != CBOR_BYTES && major != CBOR_TEXT)
            continue;
        if (n > b.len - at)
            return false;
        at += (size_t)n;
    }
    return true;
}
