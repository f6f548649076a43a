/* SentencePiece's unigram model as XLM-RoBERTa has it: characters mapped by the precompiled table,
 * words begun by a low line (U+2581), and each word cut into the pieces of the highest total score
 * (Kudo 2018). As Hugging Face `tokenizers` does it. Scratch belongs to one thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocab.h"

struct unigram_node { /* the best way to the text's first bytes */
    double score;
    int32_t id;    /* of the last piece */
    int32_t start; /* where it begins; -1: there is no way */
};

struct unigram { /* scratch; owner calls unigram_fini; zeroed = empty */
    struct buf mapped, word;
    struct unigram_node *nodes;
    size_t cap_nodes;
    int32_t *path;
    size_t cap_path;
};
void unigram_fini(struct unigram *u);

/* What all words are cut with. */
struct unigram_model {
    size_t longest; /* bytes of a piece */
    double unknown; /* score of a character that no piece has */
};
void unigram_model_init(struct unigram_model *m, const struct vocab *v);
struct unigram_input {
    const struct vocab *vocab;
    const char *text; /* well-formed UTF-8 */
    size_t len;
};
/* False only when memory ran out. */
bool unigram_encode(struct unigram *u, const struct unigram_model *m,
                    const struct unigram_input *in, struct ids *out);
