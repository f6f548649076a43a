/* What a vocabulary is made from, in one form, whether it was read from tokenizer.json or from GGUF
 * metadata: a reader fills the struct, vocab_build turns it into the flat image that vocab.c maps.
 *
 * Strings point into the reader's memory (JSON tree, mapped file) and must outlive vocab_build. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/tokenizer/vocab.h"
#include "engine/tokenizer/vocab_kind.h"

enum { VOCAB_IDS_MAX = 1 << 22, VOCAB_SPLITS_MAX = 8 };

struct arena;
struct cJSON;

struct vocab_string {
    const char *at;
    size_t len;
};

struct vocab_merge {
    struct vocab_string left, right; /* spelled in the byte-level alphabet */
};

enum vocab_added_flag {
    VOCAB_ADDED_SPECIAL = 1,
    VOCAB_ADDED_LSTRIP = 2, /* takes the white space before it along */
    VOCAB_ADDED_RSTRIP = 4,
    VOCAB_ADDED_WORD = 8,        /* only where no letter touches it */
    VOCAB_ADDED_NORMALIZED = 16, /* looked for in the normalized text */
};

struct vocab_added {
    int32_t id;
    struct vocab_string text; /* plain UTF-8 */
    unsigned flags;
};

enum vocab_split_kind {
    VOCAB_SPLIT_ISOLATED, /* matches and what lies between them are pieces */
    VOCAB_SPLIT_MATCHES,  /* only matches are; the rest is dropped */
    VOCAB_SPLIT_GAPS,     /* only what lies between is; matches are dropped */
};

struct vocab_split {
    struct vocab_string pattern; /* a regular expression */
    enum vocab_split_kind kind;
};

struct vocab_source { /* owner calls vocab_source_fini; zeroed = empty */
    enum vocab_kind kind;
    unsigned words;     /* enum vocab_words */
    int32_t unknown_id; /* WordPiece, unigram */
    double *scores;     /* [n_tokens] unigram; else NULL */
    struct vocab_string charsmap;
    struct vocab_around around;
    struct vocab_string *tokens; /* by id; at NULL: no token. BPE: spelled in the byte-level
                                    alphabet; WordPiece: plain, behind ## where a word goes on */
    size_t n_tokens;
    struct vocab_merge *merges; /* by rank */
    size_t n_merges;
    struct vocab_added *added;
    size_t n_added;
    struct vocab_split splits[VOCAB_SPLITS_MAX]; /* applied one after another */
    size_t n_splits;
    bool nfc;
    bool prefix_space;     /* a space is put before a text that has none */
    bool ignore_merges;    /* a piece that is a token is taken whole */
    bool unknown_token;    /* one is named: fine as long as no byte needs it */
    struct arena *strings; /* what strings point into, where that is the source's own; or NULL */
    struct cJSON *tree;
};
void vocab_source_fini(struct vocab_source *s);

/* Reads tokenizer.json's text, which must outlive s. ERR_UNSUPPORTED names what is not understood.
 */
bool vocab_source_json(struct vocab_source *s, const char *text, size_t len, struct err *e);
/* Adds the splits, normalizer and flags that GGUF's `tokenizer.ggml.pre` stands for. */
bool vocab_source_pre(struct vocab_source *s, const char *pre, struct err *e);
/* Appends the image to b (an empty buffer). */
bool vocab_build(const struct vocab_source *s, struct buf *b, struct err *e);
