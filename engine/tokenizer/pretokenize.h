/* Cuts text into the pieces within which tokens are merged: the vocabulary's split patterns, one
 * after another, each applied to the pieces that the one before left.
 *
 * A pretokenizer is immutable after creation and shared by threads; scratch belongs to one thread
 * at a time. Called by tokenizer.c only. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/err.h"

struct vocab;
struct pretokenizer;
struct pretokenizer_scratch;

struct pretokenizer *pretokenizer_create(const struct vocab *v, struct err *e);
void pretokenizer_destroy(struct pretokenizer **s);
struct pretokenizer_scratch *pretokenizer_scratch_create(const struct pretokenizer *s);
void pretokenizer_scratch_destroy(struct pretokenizer_scratch **s);

typedef bool (*pretokenizer_piece_fn)(void *context, const char *piece, size_t len);
struct pretokenizer_input {
    const char *text; /* well-formed UTF-8 */
    size_t len;
    pretokenizer_piece_fn on_piece; /* returns false to stop */
    void *context;                  /* of on_piece */
};
/* Gives every piece, none of them empty, to on_piece. False with ERR_LIMIT when a pattern needs too
 * many steps, or when on_piece returned false (then e is as on_piece left it). */
bool pretokenizer_run(const struct pretokenizer *s, struct pretokenizer_scratch *scratch,
                      const struct pretokenizer_input *in, struct err *e);
