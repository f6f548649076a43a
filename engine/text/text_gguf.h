/* The text side of a GGUF file: its tokenizer and chat template stand in the metadata, before the weights. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/file.h"

struct text_model;

/* Compiles the tokenizer to an image, as vocab_build does. */
bool text_gguf_image(const struct file_map *m, struct buf *image, struct err *e);
/* Bytes of the metadata, which decide the tokenizer: what a cache key is made from, since hashing a file of
 * tens of gigabytes would take longer than compiling. 0: not readable as GGUF. */
size_t text_gguf_head(const struct file_map *m);
/* Chat template, end tokens and context length. m->vocab is open already. */
bool text_gguf_read(struct text_model *m, const char *path, struct err *e);
