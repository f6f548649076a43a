/* The vocabulary as a tree of bytes, for asking which tokens a grammar allows next in one walk.
 *
 * Nodes lie in preorder with a jump over each subtree. Tokens that are plain text inside a JSON
 * string are kept separately, sorted by their number of characters: where a string may go on by n
 * characters, all of them up to n are allowed at once. Built once per model; immutable;
 * thread-safe. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/tokenizer/vocab.h"

#define TRIE_PLAIN_MAX 32 /* characters of a token that counts as plain */

struct trie_node {
    uint32_t skip;  /* index behind the subtree */
    int32_t token;  /* the token that ends here, -1: none */
    uint16_t depth; /* bytes before this one */
    uint8_t byte;
    uint8_t reserved;
};

struct trie {
    struct trie_node *nodes;
    uint32_t n;
};

struct token_trie {
    const struct vocab *vocab;
    int32_t n_vocab;
    size_t n_words;           /* 32-bit words of a set of tokens */
    struct trie plain, other; /* the two make the whole */
    uint32_t *plain_sets; /* [TRIE_PLAIN_MAX][n_words]: plain tokens of at most i + 1 characters */
    int32_t *same;        /* [n_vocab] the next token with the same bytes, or -1 */
    uint32_t *ends;       /* [n_words] tokens that end an answer */
    uint32_t max_len;     /* bytes of the longest token */
};

/* Control tokens (VOCAB_SPECIAL) and those in `eos` are no text: they are not in the tree. v
 * outlives it. */
struct token_trie *token_trie_create(const struct vocab *v, int32_t n_vocab, const int32_t *eos,
                                     int32_t n_eos, struct err *e);
void token_trie_destroy(struct token_trie **t);
size_t token_trie_bytes(const struct token_trie *t);
