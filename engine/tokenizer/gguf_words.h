/* The tokenizers of encoders in GGUF files: WordPiece ("bert") and unigram ("t5"), and what is put
 * around a text. Private to gguf_vocab.c and gguf_words.c. */
#pragma once
#include <stdbool.h>

#include "engine/format/gguf.h"
#include "engine/tokenizer/vocab_source.h"

/* s->tokens and s->added hold the file's spellings; those of WordPiece become as tokenizer.json
 * has them. */
bool gguf_words_wordpiece(const struct gguf *g, struct vocab_source *s, struct err *e);
bool gguf_words_unigram(const struct gguf *g, struct vocab_source *s, struct err *e);
void gguf_words_around(const struct gguf *g, struct vocab_source *s);
