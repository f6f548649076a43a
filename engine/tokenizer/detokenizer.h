/* Token ids to text, as a stream: only whole UTF-8 characters leave, byte-exact; a byte that can no
 * longer become part of a character turns into U+FFFD. The pieces joined equal the decoding of all
 * ids at once. One detokenizer belongs to one stream; no allocation. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/tokenizer/vocab.h"

struct detokenizer {
    const struct vocab *vocab;
    bool special_text;        /* also spell out VOCAB_SPECIAL tokens; else they give nothing */
    unsigned char pending[4]; /* a character's beginning */
    int n_pending;
};

void detokenizer_init(struct detokenizer *d, const struct vocab *v, bool special_text);
/* Appends what may be sent after this id. False only when `out` failed. */
bool detokenizer_push(struct detokenizer *d, int32_t id, struct buf *out);
/* Appends what is left at the end (U+FFFD for a cut character). */
bool detokenizer_flush(struct detokenizer *d, struct buf *out);
