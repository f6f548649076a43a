/* Cuts a stream of JSON into its conversations without holding more than one: the elements of an
 * array, the values of JSONL, or the elements of the array `conversations` in an object (whose
 * other members, the envelope, are kept). It knows strings and brackets only; the checked reader
 * judges each piece. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

/* Up to `size` bytes; 0 at the end; -1: *e. */
typedef int64_t (*split_read_fn)(void *context, void *to, size_t size, struct err *e);

enum split_place { SPLIT_TOP, SPLIT_ARRAY, SPLIT_ENVELOPE };

struct split {
    split_read_fn read;
    void *context;
    char in[32768];
    size_t pos, end;
    int64_t offset; /* of in[0] in the stream */
    enum split_place place;
    bool element_open; /* an array's comma or end must come next */
    struct buf item, envelope;
    int64_t n_items; /* given out so far */
    int n_envelopes; /* begun so far; the last one's head is in `envelope` */
    /* of the piece that was given out last */
    bool too_large, deep, too_deep, in_envelope; /* deep: over IMPORT_DEPTH */
};

void split_begin(struct split *s, split_read_fn read, void *context);
void split_fini(struct split *s);
/* The first byte of the stream behind a byte order mark and space: '{', '[', another byte, or 0:
 * nothing. -1: *e. */
int split_peek(struct split *s, struct err *e);
/* The next piece in s->item. *more false: the end. False: the stream can't be cut further (*e);
 * pieces before it stand. A piece over IMPORT_ITEM_BYTES or IMPORT_TREE_DEPTH is passed over with
 * s->too_large or s->too_deep, item cut or whole. */
bool split_next(struct split *s, bool *more, struct err *e);
