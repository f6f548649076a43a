/* The text side of a GGUF file's metadata, except for the tokenizer (gguf_vocab.h). */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"

struct text_model;

/* Chat template, end tokens and context length. m->vocab is open already. */
bool text_gguf_read(struct text_model *m, const char *path, struct err *e);
