/* The tokenizer that a GGUF file carries, as a struct vocab_source: names of pre-tokenizers are
 * resolved by vocab_source_pre, which alone knows their patterns. */
#include "engine/tokenizer/gguf_vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/tokenizer/gguf_words.h"
#include "engine/tokenizer/vocab_source.h"

enum { TOKEN_UNKNOWN = 2, TOKEN_CONTROL = 3, TOKEN_USER_DEFINED = 4, TOKEN_UNUSED = 5 };

static struct vocab_string view(struct gguf_string s)
{
    return (struct vocab_string){s.at, s.len};
}

static const struct gguf_value *string_array(const struct gguf *g, const char *key, uint64_t max)
{
    const struct gguf_value *v = gguf_find(g, key);
    return v && v->type == GGUF_ARRAY && v->element == GGUF_STRING && v->n <= max ? v : NULL;
}

/* Control and user-defined tokens are written plainly and recognised as a whole; the others are
 * spelled in the byte-level alphabet. */
static bool read_tokens(struct vocab_source *s, const struct gguf *g, struct err *e)
{
    const struct gguf_value *tokens = string_array(g, "tokenizer.ggml.tokens", VOCAB_IDS_MAX);
    const struct gguf_value *types = gguf_find(g, "tokenizer.ggml.token_type");
    const uint8_t *at = NULL;
    if (!tokens)
        return err_field(e, ERR_FORMAT, "tokenizer.ggml.tokens",
                         "no list of tokens, or one of over %d", VOCAB_IDS_MAX);
    if (types &&
        (types->type != GGUF_ARRAY || types->element == GGUF_STRING || types->n != tokens->n))
        return err_field(e, ERR_FORMAT, "tokenizer.ggml.token_type",
                         "does not fit the list of tokens");
    s->tokens = calloc((size_t)tokens->n + 1, sizeof *s->tokens);
    s->added = calloc((size_t)tokens->n + 1, sizeof *s->added);
    if (!s->tokens || !s->added)
        return err_set(e, ERR_NOMEM, "no memory for %llu tokens", (unsigned long long)tokens->n);
    s->n_tokens = (size_t)tokens->n;
    for (uint64_t i = 0; i < tokens->n; i++) {
        struct gguf_string text = gguf_next_string(tokens, &at);
        double type = types ? gguf_array_number(types, i) : 1;
        bool special = type == TOKEN_CONTROL || type == TOKEN_UNKNOWN;
        if (type == TOKEN_UNUSED || !text.len)
            continue;
        if (special || type == TOKEN_USER_DEFINED)
            s->added[s->n_added++] =
                (struct vocab_added){(int32_t)i, view(text), special ? VOCAB_ADDED_SPECIAL : 0};
        else
            s->tokens[i] = view(text);
    }
    return true;
}

/* "left right"; neither part holds a space, which the byte-level alphabet spells otherwise. */
static bool read_merges(struct vocab_source *s, const struct gguf *g, struct err *e)
{
    const struct gguf_value *merges = string_array(g, "tokenizer.ggml.merges", VOCAB_IDS_MAX * 2);
    const uint8_t *at = NULL;
    if (!merges)
        return err_field(e, ERR_FORMAT, "tokenizer.ggml.merges", "no list of merges");
    s->merges = calloc((size_t)merges->n + 1, sizeof *s->merges);
    if (!s->merges)
        return err_set(e, ERR_NOMEM, "no memory for %llu merges", (unsigned long long)merges->n);
    for (uint64_t i = 0; i < merges->n; i++) {
        struct gguf_string text = gguf_next_string(merges, &at);
        const char *space = text.len > 2 ? memchr(text.at + 1, ' ', text.len - 2) : NULL;
        if (!space)
            return err_field(e, ERR_FORMAT, "tokenizer.ggml.merges", "merge %llu is not a pair",
                             (unsigned long long)i);
        size_t left = (size_t)(space - text.at);
        s->merges[s->n_merges++] =
            (struct vocab_merge){{text.at, left}, {space + 1, text.len - left - 1}};
    }
    return true;
}

bool gguf_vocab_source(const struct gguf *g, struct vocab_source *s, struct err *e)
{
    struct gguf_string kind;
    *s = (struct vocab_source){0};
    if (!gguf_get_string(g, "tokenizer.ggml.model", &kind) ||
        (kind.len == 4 && !memcmp(kind.at, "none", 4)))
        return err_set(e, ERR_NOTFOUND, "the file has no tokenizer");
    const bool bert = kind.len == 4 && !memcmp(kind.at, "bert", 4),
               t5 = kind.len == 2 && !memcmp(kind.at, "t5", 2),
               bpe = kind.len == 4 && !memcmp(kind.at, "gpt2", 4);
    if (!bert && !t5 && !bpe)
        return err_field(e, ERR_UNSUPPORTED, "tokenizer.ggml.model",
                         "'%.*s': gpt2 (byte-level BPE), bert and t5 are read here",
                         (int)(kind.len < 40 ? kind.len : 40), kind.at);
    if (!read_tokens(s, g, e) || !(bert ? gguf_words_wordpiece(g, s, e)
                                   : t5 ? gguf_words_unigram(g, s, e)
                                        : read_merges(s, g, e)))
        return false;
    gguf_words_around(g, s);
    return true;
}

bool gguf_vocab_image(const struct file_map *m, struct buf *image, struct err *e)
{
    struct gguf g;
    struct vocab_source s = {0};
    struct gguf_string pre;
    char name[80] = "gpt-2"; /* what files from before the key mean */
    bool ok = gguf_read(&g, m->data, m->size, e) && gguf_vocab_source(&g, &s, e);
    if (ok && gguf_get_string(&g, "tokenizer.ggml.pre", &pre))
        snprintf(name, sizeof name, "%.*s", (int)(pre.len < 79 ? pre.len : 79), pre.at);
    ok = ok && (s.kind != VOCAB_BPE || vocab_source_pre(&s, name, e)) && vocab_build(&s, image, e);
    vocab_source_fini(&s);
    gguf_fini(&g);
    return ok;
}

size_t gguf_vocab_head(const struct file_map *m)
{
    struct gguf g;
    size_t n = gguf_read(&g, m->data, m->size, NULL) ? g.data_start : 0;
    gguf_fini(&g);
    return n;
}
