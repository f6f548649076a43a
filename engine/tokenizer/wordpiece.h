/* WordPiece as BERT has it: text cleaned, split at white space and punctuation, and each word cut
 * into the longest pieces that the vocabulary has, from the left. Exact against Hugging Face
 * `tokenizers` (BertNormalizer, BertPreTokenizer, WordPiece). Scratch belongs to one thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/buf.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocab.h"

struct wordpiece { /* scratch; owner calls wordpiece_fini; zeroed = empty */
    struct buf word;
};
void wordpiece_fini(struct wordpiece *w);
/* text: well-formed UTF-8. False only when memory ran out. */
bool wordpiece_encode(struct wordpiece *w, const struct vocab *v, const char *text, size_t len,
                      struct ids *out);
