/* The text side of one model, opened in one call: vocabulary, tokenizer, chat template and the
 * model's own defaults for generation. Weights are not touched. Immutable; thread-safe; survives
 * fork. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/chat/chat_template.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocab.h"

struct text_model {
    struct vocab *vocab;
    struct tokenizer *tokenizer;
    struct chat_template *chat_template; /* NULL: the model has none */
    int32_t eos[16]; /* ids that end an answer (config, generation_config, tokenizer_config) */
    int n_eos;
    int32_t n_ctx; /* positions that the model was trained for; 0: unknown */
    /* generation_config.json, or the neutral value where it is silent */
    float temperature, top_p, min_p, repetition_penalty;
    int top_k;      /* 0: off */
    char name[128]; /* folder's or file's name */
};

/* model: a folder or a GGUF file. cache_dir as in vocab_load. */
bool text_model_open(struct text_model *m, const char *model, const char *cache_dir, struct err *e);
void text_model_close(struct text_model *m);
