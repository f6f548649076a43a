/* SHA-256 over bytes that come in parts: what hubs publish of their files. libsodium behind it; no
 * state but the caller's, so that threads hash side by side. */
#pragma once
#include <stddef.h>

#define DIGEST_TEXT_SIZE 65 /* 64 hexadecimal digits and a NUL */

struct digest {
    _Alignas(16) unsigned char state[128]; /* libsodium's own */
};

void digest_begin(struct digest *d);
void digest_add(struct digest *d, const void *data, size_t len);
/* Lower case. Ends it: begin anew before the next use. */
void digest_end(struct digest *d, char out[DIGEST_TEXT_SIZE]);
