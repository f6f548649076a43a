/* The compiled vocabulary's layout: one header, then sections, all little-endian as this machine
 * is. Only vocab*.c, bpe.c, pretokenize.c and tokenizer.c look inside. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "engine/tokenizer/vocab.h"
#include "engine/tokenizer/vocab_kind.h"

enum { VOCAB_VERSION = 2, VOCAB_ALIGN = 64 };
#define VOCAB_MAGIC "SLUICEvo"
/* Beside enum vocab_flag: a token that byte-level text can become. */
#define VOCAB_IN_MODEL 128u

enum vocab_section {
    VOCAB_OFFSETS,    /* uint32_t[n_ids + 1] into TEXT */
    VOCAB_TEXT,       /* the tokens' raw bytes, then the added tokens' and the patterns' text */
    VOCAB_FLAGS,      /* uint8_t[n_ids], enum vocab_flag */
    VOCAB_BYTE_IDS,   /* int32_t[256], id of each single byte, -1 for none */
    VOCAB_TOKEN_HASH, /* int32_t[], open addressing by bytes, -1 for an empty place */
    VOCAB_PAIR_HASH,  /* struct vocab_pair[], open addressing by (left, right) */
    VOCAB_ADDED_LIST, /* struct vocab_image_added[], sorted by bytes */
    VOCAB_SPLIT_LIST, /* struct vocab_image_split[] */
    VOCAB_SCORES,     /* double[n_ids] of a unigram model; else empty */
    VOCAB_CHARSMAP,   /* its map of characters as SentencePiece wrote it, or empty */
    VOCAB_SECTION__N
};

struct vocab_range {
    uint64_t offset, size; /* bytes from the file's beginning */
};

struct vocab_header {
    char magic[8];
    uint32_t version, header_size;
    uint64_t file_size;
    uint64_t checksum;    /* hash64 over the file from `fingerprint` on */
    uint64_t fingerprint; /* hash64 over the sections and the flags below */
    uint32_t n_ids, n_merges;
    uint32_t nfc, prefix_space, ignore_merges;
    uint32_t kind, words; /* enum vocab_kind, enum vocab_words */
    int32_t unknown_id;   /* WordPiece, unigram */
    struct vocab_around around;
    struct vocab_range sections[VOCAB_SECTION__N];
};

struct vocab_pair {
    int32_t left, right; /* left -1: an empty place */
    int32_t rank, id;    /* id: of the merged token */
};

struct vocab_image_added {
    uint32_t offset, len; /* in TEXT */
    int32_t id;
    uint32_t flags; /* enum vocab_added_flag */
};

struct vocab_image_split {
    uint32_t offset, len; /* in TEXT */
    uint32_t kind, reserved;
};

struct vocab { /* pointers into the image */
    const unsigned char *image;
    size_t image_size;
    void *owned;  /* image compiled in memory, or NULL */
    void *mapped; /* image mapped from a file, or NULL */
    const struct vocab_header *header;
    const uint32_t *offsets;
    const char *text;
    const uint8_t *flags;
    const int32_t *byte_ids;
    const int32_t *token_hash;
    uint32_t n_token_hash;
    const struct vocab_pair *pairs;
    uint32_t n_pairs;
    const struct vocab_image_added *added;
    uint32_t n_added;
    const struct vocab_image_split *splits;
    uint32_t n_splits;
    const double *scores;
    const unsigned char *charsmap;
    size_t n_charsmap;
};

/* Checks the image and fills v's pointers; does not take ownership. */
bool vocab_bind(struct vocab *v, const void *image, size_t size, struct err *e);

/* Maps a 32-bit hash to [0, n) without a division. */
static inline uint32_t vocab_slot(uint32_t hash, uint32_t n)
{
    return (uint32_t)((uint64_t)hash * n >> 32);
}

static inline uint32_t vocab_pair_hash(int32_t left, int32_t right)
{
    uint64_t k = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    k *= 0x9E3779B97F4A7C15u;
    k ^= k >> 32;
    k *= 0xD6E8FEB86659FD93u;
    return (uint32_t)(k >> 32);
}

/* The pair's row, or NULL when the two do not merge. */
static inline const struct vocab_pair *vocab_pair_find(const struct vocab *v, int32_t left,
                                                       int32_t right)
{
    uint32_t at = vocab_slot(vocab_pair_hash(left, right), v->n_pairs);
    for (;;) {
        const struct vocab_pair *p = &v->pairs[at];
        if (p->left == left && p->right == right)
            return p;
        if (p->left < 0)
            return NULL;
        at = at + 1 == v->n_pairs ? 0 : at + 1;
    }
}

/* A model token (no added one) by its bytes, or -1. */
int32_t vocab_find_plain(const struct vocab *v, const char *bytes, size_t len);
