/* Writes and compares the header of a stored block. All integers are little-endian, as on every
 * machine that this runs on; content is in the backend's own form anyway. */
#include "engine/cache/disk/record_form.h"

#include <string.h>

#include "engine/base/hash.h"
#include "engine/cache/disk/record_seal.h"

#define MAGIC 0x52564b53u /* "SKVR" */
#define VERSION 1u
#define FLAG_SEALED 1u

struct header {
    uint32_t magic, version;
    uint32_t bytes; /* of the whole record */
    uint32_t flags;
    struct record_about about;             /* sealed: without scope and tokens */
    unsigned char checksum[HASH128_BYTES]; /* of the record with this field zeroed */
    unsigned char nonce[RECORD_NONCE_BYTES], tag[RECORD_TAG_BYTES]; /* zeros: it is not sealed */
};
_Static_assert(sizeof(struct header) <= RECORD_HEADER_BYTES, "the header has its room");
_Static_assert(sizeof(struct record_about) == 2 * 16 + 8 + 16 + 64 + 128, "no padding in a file");

static void fill(struct header *h, const struct record_about *about)
{
    memset(h, 0, sizeof *h);
    h->magic = MAGIC;
    h->version = VERSION;
    h->bytes = record_bytes(about->block_bytes, about->state_bytes);
    h->about = *about;
    /* bytes behind the scope's end say nothing */
    size_t len = strnlen(about->scope, sizeof about->scope);
    memset(h->about.scope + len, 0, sizeof about->scope - len);
}

static struct record_content content_of(unsigned char *record, const struct header *clear)
{
    return (struct record_content){.bytes = record + RECORD_HEADER_BYTES,
                                   .n = clear->bytes - RECORD_HEADER_BYTES,
                                   .header = clear,
                                   .n_header = sizeof *clear};
}

/* What the seal is checked with is the header in clear; only then is it made what lies on disk. */
static void seal_content(struct header *h, unsigned char *record, const struct prompt_seal *seal)
{
    h->flags = FLAG_SEALED;
    record_seal_nonce(h->nonce);
    const struct header clear = *h;
    const struct record_content content = content_of(record, &clear);
    record_seal_close(&content, h->nonce, h->tag, seal);
}

static bool open_content(const struct header *want, unsigned char *record,
                         const struct prompt_seal *seal)
{
    struct header clear = *want;
    memset(clear.checksum, 0, sizeof clear.checksum);
    memset(clear.tag, 0, sizeof clear.tag);
    const struct record_content content = content_of(record, &clear);
    return record_seal_open(&content, want->nonce, want->tag, seal);
}

static void hide_text(struct header *h)
{
    memset(h->about.scope, 0, sizeof h->about.scope);
    memset(h->about.tokens, 0, sizeof h->about.tokens);
}

void record_finish(void *record, const struct record_about *about, const struct prompt_seal *seal)
{
    unsigned char *at = record;
    struct header h;
    size_t block_end = RECORD_HEADER_BYTES + (size_t)about->block_bytes;
    size_t state_at = record_bytes(about->block_bytes, 0),
           state_end = state_at + about->state_bytes;
    fill(&h, about);
    memset(at, 0, RECORD_HEADER_BYTES);
    memset(at + block_end, 0, state_at - block_end);
    memset(at + state_end, 0, h.bytes - state_end);
    if (seal) {
        seal_content(&h, at, seal);
        hide_text(&h);
    }
    memcpy(at, &h, sizeof h);
    hash128(record, h.bytes, 0, h.checksum);
    memcpy(at, &h, sizeof h);
}

/* Every byte, by the checksum that the header has; its field is zeroed meanwhile. */
static bool sum_holds(void *record, uint32_t bytes)
{
    unsigned char have[HASH128_BYTES], sum[HASH128_BYTES];
    unsigned char *field = (unsigned char *)record + offsetof(struct header, checksum);
    memcpy(have, field, sizeof have);
    memset(field, 0, sizeof have);
    hash128(record, bytes, 0, sum);
    memcpy(field, have, sizeof have);
    return memcmp(sum, have, sizeof sum) == 0;
}

bool record_is(void *record, const struct record_about *about, const struct prompt_seal *seal)
{
    struct header clear, want, have;
    memcpy(&have, record, sizeof have);
    fill(&clear, about);
    memcpy(clear.checksum, have.checksum, sizeof clear.checksum);
    if (seal) {
        clear.flags = FLAG_SEALED;
        memcpy(clear.nonce, have.nonce, sizeof clear.nonce);
        memcpy(clear.tag, have.tag, sizeof clear.tag);
    }
    want = clear;
    if (seal)
        hide_text(&want);
    return memcmp(&want, &have, sizeof want) == 0 && sum_holds(record, want.bytes) &&
           (!seal || open_content(&clear, record, seal));
}

bool record_peek(const void *header, struct prompt_key *key, uint32_t *bytes)
{
    struct header h;
    memcpy(&h, header, sizeof h);
    *key = h.about.key;
    *bytes = h.bytes;
    return h.magic == MAGIC && h.version == VERSION && h.bytes % RECORD_ALIGN == 0 &&
           h.bytes == record_bytes(h.about.block_bytes, h.about.state_bytes);
}

bool record_whole(void *record, uint32_t bytes, const struct prompt_key *key)
{
    struct prompt_key have;
    uint32_t n;
    return bytes >= RECORD_ALIGN && record_peek(record, &have, &n) && n == bytes &&
           memcmp(&have, key, sizeof have) == 0 && sum_holds(record, bytes);
}
