/* Text to token ids: added tokens, normalizer, pre-tokenizer (PCRE2), byte-level BPE; or WordPiece,
 * or a unigram model, as the vocabulary is. Exact against Hugging Face `tokenizers`; linear in the
 * text's length, words of any length included.
 *
 * A tokenizer is immutable after tokenizer_create; tokenizer_encode is thread-safe. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/base/json/text_span.h"
#include "engine/tokenizer/vocab.h"

struct tokenizer;

struct ids { /* a growing list of token ids; owner calls ids_fini; zeroed = empty */
    int32_t *at;
    size_t n, cap;
};
bool ids_push(struct ids *l, int32_t id);
void ids_fini(struct ids *l);

enum tokenize_mode {
    TOKENIZE_PLAIN,   /* no added token is recognised anywhere */
    TOKENIZE_SPECIAL, /* all added tokens are, outside the untrusted spans */
};

struct tokenizer *tokenizer_create(const struct vocab *v, struct err *e); /* v outlives it */
void tokenizer_destroy(struct tokenizer **t);
struct tokenizer_input {
    const char *text; /* ill-formed UTF-8 counts as U+FFFD per maximal part */
    size_t len;
    enum tokenize_mode mode;
    const struct text_span
        *untrusted; /* [n_untrusted] parts in which no added token is recognised */
    size_t n_untrusted;
};
/* Appends the text's token ids to out; on failure out is as it was. */
bool tokenizer_encode(const struct tokenizer *t, const struct tokenizer_input *in, struct ids *out,
                      struct err *e);
