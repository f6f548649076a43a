/* The tokenizer that a GGUF file carries: it stands in the metadata, before the weights. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/format/gguf.h"

struct vocab_source;

/* Fills s from the tokenizer.ggml.* keys. ERR_UNSUPPORTED: a tokenizer that is not byte-level BPE;
 * ERR_NOTFOUND: the file has none. Strings point into the file, arrays are s's own; the
 * pre-tokenizer ("tokenizer.ggml.pre") is left to vocab_source_pre. */
bool gguf_vocab_source(const struct gguf *g, struct vocab_source *s, struct err *e);
/* Compiles the tokenizer to an image, as vocab_build does. */
bool gguf_vocab_image(const struct file_map *m, struct buf *image, struct err *e);
/* Bytes of the metadata, which decide the tokenizer: what a cache key is made from, since hashing a
 * file of tens of gigabytes would take longer than compiling. 0: not readable as GGUF. */
size_t gguf_vocab_head(const struct file_map *m);
