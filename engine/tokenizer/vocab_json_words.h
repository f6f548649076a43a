/* The parts of tokenizer.json that encoders have: WordPiece and unigram models with their
 * normalizers, and what is put around a text. Private to vocab_json.c and vocab_json_words.c. */
#pragma once
#include <stdbool.h>

#include "engine/base/json/json_cursor.h"
#include "engine/tokenizer/vocab_source.h"

/* model: its object without the vocabulary, root: the file's. The tokens of WordPiece are read
 * already. ERR_UNSUPPORTED names what is not understood. */
bool vocab_json_wordpiece(struct vocab_source *s, const struct cJSON *root, struct err *e);
bool vocab_json_unigram(struct vocab_source *s, const struct cJSON *root, struct json_cursor vocab,
                        struct err *e);
/* The post-processor, of any kind of model. What is not understood leaves the text bare for models
 * that write text (they never had it), and is refused for the others. */
bool vocab_json_around(struct vocab_source *s, const struct cJSON *root, struct err *e);
