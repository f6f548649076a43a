/* The form of one stored block on disk: a header, the block's KV, and in models with recurrent
 * layers perhaps the state after it. A record begins at a multiple of RECORD_ALIGN and fills whole
 * ones, so that it can be read and written past the page cache.
 *
 * The header holds all that a key stands for, and a reader compares it whole: a record of another
 * model, scope or text is never taken, whatever its key. The checksum covers every byte.
 *
 * A record may be sealed with a key of its user: content by XChaCha20-Poly1305, and scope and
 * tokens are not in the header then, but what the seal is checked with. Nothing of the text is on
 * the disk in clear, and a record is sealed or not by what its reader asks for. No state; any
 * thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/wire/prompt_cache.h"

#define RECORD_ALIGN 4096u
#define RECORD_HEADER_BYTES 512u /* KV begins here */

/* What a record is of: known to whoever writes it, and to whoever expects to read it. */
struct record_about {
    struct prompt_key key, parent;
    uint64_t identity;
    uint32_t block_bytes;
    uint32_t state_bytes; /* 0: none */
    int32_t end;          /* tokens of the chain up to the block's end */
    int32_t variant;
    char scope[ENGINE_SCOPE_SIZE];
    int32_t tokens[ENGINE_STORED_TOKENS];
};

static inline uint32_t record_align(uint64_t bytes)
{
    return (uint32_t)((bytes + RECORD_ALIGN - 1) / RECORD_ALIGN * RECORD_ALIGN);
}
/* Bytes of a whole record. The state begins at a multiple of RECORD_ALIGN, so that its size tells
 * whether a record has one. */
static inline uint32_t record_bytes(uint32_t block_bytes, uint32_t state_bytes)
{
    return record_align((uint64_t)RECORD_HEADER_BYTES + block_bytes) + record_align(state_bytes);
}
static inline unsigned char *record_block(void *record)
{
    return (unsigned char *)record + RECORD_HEADER_BYTES;
}
static inline unsigned char *record_state(void *record, uint32_t block_bytes)
{
    return (unsigned char *)record + record_bytes(block_bytes, 0);
}
/* Fills header and padding of a record whose content is in place, and seals it, unless the key is
 * NULL. */
void record_finish(void *record, const struct record_about *about, const struct prompt_seal *seal);
/* True if the record is whole and of exactly this, sealed with this key (NULL: not sealed); its
 * content is in clear then. The checksum's field is zeroed meanwhile. */
bool record_is(void *record, const struct record_about *about, const struct prompt_seal *seal);
/* Reads no more than the first RECORD_HEADER_BYTES: key and size of what begins there. False: no
 * record does. */
bool record_peek(const void *header, struct prompt_key *key, uint32_t *bytes);
/* True if the bytes are one whole record with this key, whatever it is of. The checksum's field is
 * zeroed meanwhile. */
bool record_whole(void *record, uint32_t bytes, const struct prompt_key *key);
