/* XChaCha20-Poly1305 over the content of a record: the one place of the engine that sees libsodium.
 * No state; any thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/wire/prompt_cache.h"

#define RECORD_NONCE_BYTES 24
#define RECORD_TAG_BYTES 16

struct record_content {
    unsigned char *bytes; /* [n], in place */
    size_t n;
    const void *header; /* [n_header] what the seal is checked with, too */
    size_t n_header;
};

void record_seal_nonce(unsigned char nonce[RECORD_NONCE_BYTES]); /* a new one at random */
void record_seal_close(const struct record_content *c, const unsigned char *nonce,
                       unsigned char tag[RECORD_TAG_BYTES], const struct prompt_seal *seal);
/* False: it was sealed with another key, or has been changed. */
bool record_seal_open(const struct record_content *c, const unsigned char *nonce,
                      const unsigned char tag[RECORD_TAG_BYTES], const struct prompt_seal *seal);
