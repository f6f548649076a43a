/* Finds added tokens in text: at the first place where one stands, the longest. Reads the
 * vocabulary's sorted list; holds nothing that changes. Called by tokenizer.c only. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/tokenizer/normalizer.h"

struct vocab;

struct added_tokens { /* one of the two passes: those looked for before or after normalizing */
    const struct vocab *vocab;
    bool normalized;
    bool any;
    bool first[256]; /* bytes that a token of the pass begins with */
};
void added_tokens_init(struct added_tokens *s, const struct vocab *v, bool normalized);

struct added_token_match {
    size_t start, end; /* white space that the token takes along included */
    int32_t id;
};
/* Searches [from, view->len). The token itself lies wholly outside the view's untrusted spans. */
bool added_tokens_find(const struct added_tokens *s, const struct text_view *view, size_t from,
                       struct added_token_match *m);
