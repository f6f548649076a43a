/* Reads the vocabularies of encoders from GGUF metadata, spelled as tokenizer.json spells them. */
#include "engine/tokenizer/gguf_words.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"

static const char low_line[] = "\xe2\x96\x81";

static int32_t id_of(const struct gguf *g, const struct vocab_source *s, const char *key)
{
    double v;
    return gguf_number(g, key, &v) && v >= 0 && v < (double)s->n_tokens ? (int32_t)v : -1;
}

static bool has_upper(struct vocab_string t)
{
    for (size_t i = 0; i < t.len; i++)
        if (t.at[i] >= 'A' && t.at[i] <= 'Z')
            return true;
    return false;
}

/* Converters write a word's beginning with a low line and leave its continuations bare. */
static bool respell(struct vocab_source *s, struct vocab_string *t)
{
    if (t->len >= 3 && !memcmp(t->at, low_line, 3)) {
        *t = (struct vocab_string){t->at + 3, t->len - 3};
        return true;
    }
    char *text = arena_alloc(s->strings, t->len + 3);
    if (!text)
        return false;
    memcpy(text, "##", 2);
    memcpy(text + 2, t->at, t->len);
    *t = (struct vocab_string){text, t->len + 2};
    return true;
}

/* The file does not say whether letters become small: no piece of such a vocabulary has a large
 * one. */
bool gguf_words_wordpiece(const struct gguf *g, struct vocab_source *s, struct err *e)
{
    bool cased = false;
    s->strings = arena_create(0);
    for (size_t i = 0; s->strings && i < s->n_tokens; i++)
        if (s->tokens[i].at) {
            if (!respell(s, &s->tokens[i]))
                return err_set(e, ERR_NOMEM, "out of memory for the vocabulary");
            cased = cased || has_upper(s->tokens[i]);
        }
    s->kind = VOCAB_WORDPIECE;
    s->words = VOCAB_WORDS_CLEAN | VOCAB_WORDS_CHINESE |
               (cased ? 0u : (unsigned)VOCAB_WORDS_LOWER | (unsigned)VOCAB_WORDS_STRIP);
    s->unknown_id = id_of(g, s, "tokenizer.ggml.unknown_token_id");
    if (!s->strings)
        return err_set(e, ERR_NOMEM, "out of memory for the vocabulary");
    return s->unknown_id >= 0 || err_field(e, ERR_FORMAT, "tokenizer.ggml.unknown_token_id",
                                           "WordPiece has an unknown token");
}

bool gguf_words_unigram(const struct gguf *g, struct vocab_source *s, struct err *e)
{
    const struct gguf_value *scores = gguf_find(g, "tokenizer.ggml.scores");
    const struct gguf_value *map = gguf_find(g, "tokenizer.ggml.precompiled_charsmap");
    if (!scores || scores->type != GGUF_ARRAY || scores->element == GGUF_STRING ||
        scores->n != s->n_tokens)
        return err_field(e, ERR_FORMAT, "tokenizer.ggml.scores", "not a score for each token");
    s->scores = calloc(s->n_tokens + 1, sizeof *s->scores);
    s->strings = arena_create(0);
    char *bytes = s->strings && map ? arena_alloc(s->strings, (size_t)map->n + 1) : NULL;
    if (!s->scores || !s->strings || (map && !bytes))
        return err_set(e, ERR_NOMEM, "out of memory for the vocabulary");
    for (size_t i = 0; i < s->n_tokens; i++)
        s->scores[i] = gguf_array_number(scores, i);
    if (map && (map->type != GGUF_ARRAY || map->element == GGUF_STRING))
        return err_field(e, ERR_FORMAT, "tokenizer.ggml.precompiled_charsmap", "not bytes");
    for (uint64_t i = 0; map && i < map->n; i++)
        bytes[i] = (char)(int)gguf_array_number(map, i);
    s->charsmap = (struct vocab_string){bytes, map ? (size_t)map->n : 0};
    s->kind = VOCAB_UNIGRAM;
    s->unknown_id = id_of(g, s, "tokenizer.ggml.unknown_token_id");
    if (s->unknown_id < 0)
        s->unknown_id = 3; /* XLM-RoBERTa's */
    return (size_t)s->unknown_id < s->n_tokens ||
           err_field(e, ERR_FORMAT, "tokenizer.ggml.unknown_token_id", "unigram has one");
}

static bool is_on(const struct gguf *g, const char *key, bool otherwise)
{
    double v;
    return gguf_number(g, key, &v) ? v != 0 : otherwise;
}

void gguf_words_around(const struct gguf *g, struct vocab_source *s)
{
    struct vocab_around *a = &s->around;
    const bool words = s->kind != VOCAB_BPE;
    int32_t cls = id_of(g, s, "tokenizer.ggml.cls_token_id"),
            sep = id_of(g, s, "tokenizer.ggml.seperator_token_id");
    const int32_t bos = id_of(g, s, "tokenizer.ggml.bos_token_id"),
                  eos = id_of(g, s, "tokenizer.ggml.eos_token_id");
    cls = cls >= 0 ? cls : bos;
    sep = sep >= 0 ? sep : eos;
    if (words && cls >= 0 && is_on(g, "tokenizer.ggml.add_bos_token", true))
        a->before[a->n_before++] = cls;
    if (words ? sep >= 0 && is_on(g, "tokenizer.ggml.add_eos_token", true)
              : eos >= 0 && is_on(g, "tokenizer.ggml.add_eos_token", false))
        a->after[a->n_after++] = words ? sep : eos;
    for (int i = 0; words && sep >= 0 && i < (s->kind == VOCAB_UNIGRAM ? 2 : 1); i++)
        a->between[a->n_between++] = sep;
    a->second_type = s->kind == VOCAB_WORDPIECE;
}
