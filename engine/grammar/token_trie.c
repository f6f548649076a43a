/* Sorting the tokens by their bytes gives the tree in preorder. */
#include "engine/grammar/token_trie.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/utf8.h"

struct token {
    const char *bytes;
    uint32_t len;
    int32_t id;
};

static int by_bytes(const void *x, const void *y)
{
    const struct token *a = x, *b = y;
    uint32_t n = a->len < b->len ? a->len : b->len;
    int order = memcmp(a->bytes, b->bytes, n);
    if (order)
        return order;
    return a->len != b->len ? (a->len < b->len ? -1 : 1) : a->id < b->id ? -1 : 1;
}

/* Characters of a token that needs no escape in a JSON string and has whole characters only; 0: it
 * is none. */
static uint32_t plain_length(const struct token *t)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->len; n++) {
        unsigned char c = (unsigned char)t->bytes[i];
        size_t size;
        if (c < 0x20 || c == '"' || c == '\\' ||
            utf8_part((const unsigned char *)t->bytes + i, t->len - i, &size) != UTF8_WHOLE)
            return 0;
        i += (uint32_t)size;
    }
    return n <= TRIE_PLAIN_MAX ? n : 0;
}

static bool grow(struct trie *t, uint32_t *cap)
{
    if (t->n < *cap)
        return true;
    *cap = *cap ? *cap * 2 : 4096;
    struct trie_node *grown = realloc(t->nodes, *cap * sizeof *grown);
    if (grown)
        t->nodes = grown;
    return grown != NULL;
}

/* The subtrees of the last token that the next one does not share end here. */
static void close_nodes(struct trie *t, uint32_t *open, uint32_t from, uint32_t to)
{
    for (uint32_t depth = from; depth < to; depth++)
        t->nodes[open[depth]].skip = t->n;
}

struct sorted_tokens {
    const struct token *at; /* [n] by their bytes */
    const uint8_t *kind;    /* [n] plain_length of each */
    uint32_t n;
};

/* Builds the trie of the plain tokens, or that of all others. */
static bool build(struct trie *t, struct token_trie *all, const struct sorted_tokens *tokens,
                  bool plain)
{
    uint32_t cap = 0, depth = 0;
    uint32_t *open = malloc(((size_t)all->max_len + 1) * sizeof *open);
    const struct token *last = NULL;
    if (!open)
        return false;
    for (uint32_t i = 0; i < tokens->n; i++) {
        const struct token *x = &tokens->at[i];
        uint32_t shared = 0;
        if ((tokens->kind[i] > 0) != plain)
            continue;
        while (last && shared < last->len && shared < x->len &&
               last->bytes[shared] == x->bytes[shared])
            shared++;
        if (last && shared == x->len && shared == last->len) { /* the same bytes under another id */
            all->same[last->id] = x->id;
            last = x;
            continue;
        }
        close_nodes(t, open, shared, depth);
        for (depth = shared; depth < x->len; depth++) {
            if (!grow(t, &cap)) {
                free(open);
                return false;
            }
            open[depth] = t->n;
            t->nodes[t->n++] = (struct trie_node){.token = depth + 1 == x->len ? x->id : -1,
                                                  .depth = (uint16_t)depth,
                                                  .byte = (uint8_t)x->bytes[depth]};
        }
        last = x;
    }
    close_nodes(t, open, 0, depth);
    free(open);
    return true;
}

static uint32_t collect(struct token_trie *t, struct token *tokens)
{
    uint32_t n = 0;
    for (int32_t id = 0; id < t->n_vocab; id++) {
        size_t len;
        const char *bytes = vocab_bytes(t->vocab, id, &len);
        if (!bytes || !len || len > UINT16_MAX ||
            vocab_flags(t->vocab, id) & (VOCAB_SPECIAL | VOCAB_UNUSED) ||
            t->ends[id >> 5] >> (id & 31) & 1)
            continue;
        tokens[n++] = (struct token){bytes, (uint32_t)len, id};
        if (len > t->max_len)
            t->max_len = (uint32_t)len;
    }
    qsort(tokens, n, sizeof *tokens, by_bytes);
    return n;
}

/* plain_sets[i]: first those with exactly i + 1 characters, then each takes in the one before. */
static void fill_sets(struct token_trie *t, const struct token *tokens, uint32_t n, uint8_t *kind)
{
    for (uint32_t i = 0; i < n; i++) {
        kind[i] = (uint8_t)plain_length(&tokens[i]);
        if (kind[i])
            t->plain_sets[(kind[i] - 1u) * t->n_words + ((uint32_t)tokens[i].id >> 5)] |=
                1u << (tokens[i].id & 31);
    }
    for (uint32_t set = 1; set < TRIE_PLAIN_MAX; set++)
        for (size_t w = 0; w < t->n_words; w++)
            t->plain_sets[set * t->n_words + w] |= t->plain_sets[(set - 1) * t->n_words + w];
}

struct token_trie *token_trie_create(const struct vocab *v, int32_t n_vocab, const int32_t *eos,
                                     int32_t n_eos, struct err *e)
{
    struct token_trie *t = calloc(1, sizeof *t);
    struct token *tokens = malloc((size_t)n_vocab * sizeof *tokens);
    uint8_t *kind = malloc((size_t)n_vocab + 1);
    bool ok = false;
    if (!t || !tokens || !kind)
        goto out;
    t->vocab = v;
    t->n_vocab = n_vocab;
    t->n_words = ((size_t)n_vocab + 31) / 32;
    t->plain_sets = calloc(TRIE_PLAIN_MAX * t->n_words, sizeof *t->plain_sets);
    t->ends = calloc(t->n_words, sizeof *t->ends);
    t->same = malloc((size_t)n_vocab * sizeof *t->same);
    if (!t->plain_sets || !t->ends || !t->same)
        goto out;
    memset(t->same, 0xff, (size_t)n_vocab * sizeof *t->same);
    for (int32_t i = 0; i < n_eos; i++)
        if (eos[i] >= 0 && eos[i] < n_vocab)
            t->ends[eos[i] >> 5] |= 1u << (eos[i] & 31);
    uint32_t n = collect(t, tokens);
    fill_sets(t, tokens, n, kind);
    const struct sorted_tokens sorted = {.at = tokens, .kind = kind, .n = n};
    ok = build(&t->plain, t, &sorted, true) && build(&t->other, t, &sorted, false);
out:
    free(tokens);
    free(kind);
    if (!ok) {
        token_trie_destroy(&t);
        err_set(e, ERR_NOMEM, "no memory for a tree of %d tokens", n_vocab);
    }
    return t;
}

void token_trie_destroy(struct token_trie **t)
{
    if (!*t)
        return;
    free((*t)->plain.nodes);
    free((*t)->other.nodes);
    free((*t)->plain_sets);
    free((*t)->ends);
    free((*t)->same);
    free(*t);
    *t = NULL;
}

size_t token_trie_bytes(const struct token_trie *t)
{
    return ((size_t)t->plain.n + t->other.n) * sizeof(struct trie_node) +
           t->n_words * (TRIE_PLAIN_MAX + 1) * sizeof(uint32_t) +
           (size_t)t->n_vocab * sizeof(int32_t);
}
