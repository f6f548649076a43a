/* Text made clean before it is tokenized: ill-formed UTF-8 to U+FFFD, and NFC, with the untrusted
 * spans carried along. Called by tokenizer.c only. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/tokenizer/tokenizer.h"

struct text_view { /* a text and its untrusted spans; owns nothing */
    const char *text;
    size_t len;
    const struct text_span *spans;
    size_t n_spans;
};

struct normalizer { /* a changed copy; owner calls normalizer_fini; zeroed = empty */
    struct buf text;
    struct text_span *spans;
    size_t n_spans, cap_spans;
    int32_t *codes; /* a segment's code points, while it is normalized */
    int32_t *sorted;
    size_t cap_codes;
};
void normalizer_fini(struct normalizer *n);

/* Both leave *view alone when nothing is to change, else point it into n (until n's next use).
 * A span that touches a changed part grows over all of it: what mixes trusted and untrusted text is
 * untrusted. False only when memory ran out. */
bool normalizer_repair_utf8(struct normalizer *n, struct text_view *view);
bool normalizer_nfc(struct normalizer *n, struct text_view *view);
/* Puts a space before the text unless it begins with one. */
bool normalizer_prefix_space(struct normalizer *n, struct text_view *view);
