/* Byte-pair merging of one piece of text, by the vocabulary's ranks.
 * Linear for short pieces' sizes, n log n beyond; a struct bpe belongs to one thread at a time. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocab.h"

struct bpe_symbol {
    int32_t id;         /* -1: merged into the one before */
    int32_t rank;       /* of the pair with the next one; INT32_MAX: none */
    int32_t into;       /* the pair's product */
    int32_t prev, next; /* -1: none */
};

enum { BPE_KEY_WORDS = 3, BPE_CACHED_IDS = 9, BPE_CACHE_SIZE = 1 << 13 };

struct bpe_cached {              /* a piece of at most 24 bytes and its ids: one cache line */
    uint64_t key[BPE_KEY_WORDS]; /* the bytes, zero-padded */
    uint8_t len, n;              /* len 0: empty */
    uint16_t unused;
    int32_t ids[BPE_CACHED_IDS];
};

struct bpe { /* scratch and word cache; owner calls bpe_fini; zeroed = empty */
    struct bpe_symbol *symbols;
    uint64_t *heap; /* rank << 32 | position; smallest first */
    size_t n_heap, cap_symbols, cap_heap;
    struct bpe_cached *cache; /* [BPE_CACHE_SIZE], or NULL when memory was short */
};
void bpe_fini(struct bpe *b);
/* Appends the piece's ids. False only when memory ran out. */
bool bpe_encode(struct bpe *b, const struct vocab *v, const char *piece, size_t len,
                struct ids *out);
