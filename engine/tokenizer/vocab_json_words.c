/* Reads what encoders have in tokenizer.json, and refuses by name what would give other ids. */
#include "engine/tokenizer/vocab_json_words.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/json/json.h"

static const char *type_of(const cJSON *o)
{
    const cJSON *t = json_member(o, "type");
    return cJSON_IsString(t) ? t->valuestring : "(none)";
}

static bool is_type(const cJSON *o, const char *type)
{
    return !strcmp(type_of(o), type);
}

/* --- WordPiece --- */

static bool read_bert_normalizer(struct vocab_source *s, const cJSON *n, struct err *e)
{
    bool clean = true, chinese = true, lower = true;
    if (!n || !is_type(n, "BertNormalizer"))
        return err_field(e, ERR_UNSUPPORTED, "normalizer", "%s; WordPiece wants BertNormalizer",
                         type_of(n));
    const cJSON *accents = json_member(n, "strip_accents");
    if (!json_get_bool(n, "clean_text", &clean, e) ||
        !json_get_bool(n, "handle_chinese_chars", &chinese, e) ||
        !json_get_bool(n, "lowercase", &lower, e))
        return false;
    const bool strip = cJSON_IsBool(accents) ? cJSON_IsTrue(accents) : lower;
    s->words |= (clean ? VOCAB_WORDS_CLEAN : 0u) | (chinese ? VOCAB_WORDS_CHINESE : 0u) |
                (lower ? VOCAB_WORDS_LOWER : 0u) | (strip ? VOCAB_WORDS_STRIP : 0u);
    return true;
}

static int32_t find_token(const struct vocab_source *s, const char *text)
{
    for (size_t i = 0; i < s->n_tokens; i++)
        if (s->tokens[i].at && s->tokens[i].len == strlen(text) &&
            !memcmp(s->tokens[i].at, text, s->tokens[i].len))
            return (int32_t)i;
    return -1;
}

bool vocab_json_wordpiece(struct vocab_source *s, const struct cJSON *root, struct err *e)
{
    const cJSON *model = json_member(root, "model"), *pre = json_member(root, "pre_tokenizer");
    const char *unknown = "[UNK]", *prefix = "##";
    int64_t longest = 100;
    if (!json_get_string(model, "unk_token", &unknown, e) ||
        !json_get_string(model, "continuing_subword_prefix", &prefix, e) ||
        !json_get_int(model, "max_input_chars_per_word", 1, 1 << 20, &longest, e))
        return false;
    if (strcmp(prefix, "##") != 0 || longest != 100)
        return err_field(e, ERR_UNSUPPORTED, "model.continuing_subword_prefix",
                         "'%.16s' and words of %d characters; want '##' and 100", prefix,
                         (int)longest);
    if (!pre || !is_type(pre, "BertPreTokenizer"))
        return err_field(e, ERR_UNSUPPORTED, "pre_tokenizer",
                         "%s; WordPiece wants BertPreTokenizer", type_of(pre));
    s->unknown_id = find_token(s, unknown);
    if (s->unknown_id < 0)
        return err_field(e, ERR_FORMAT, "model.unk_token", "'%.40s' is no token", unknown);
    return read_bert_normalizer(s, json_member(root, "normalizer"), e);
}

/* --- unigram --- */

static bool reserve(struct vocab_source *s, size_t n, size_t *cap, struct err *e)
{
    if (n < *cap)
        return true;
    const size_t want = *cap ? *cap * 2 : 4096;
    struct vocab_string *tokens = realloc(s->tokens, want * sizeof *tokens);
    if (tokens)
        s->tokens = tokens;
    double *scores = realloc(s->scores, want * sizeof *scores);
    if (scores)
        s->scores = scores;
    if (!tokens || !scores)
        return err_set(e, ERR_NOMEM, "out of memory for %zu tokens", want);
    *cap = want;
    return true;
}

/* [["piece", score], ...]: the id is the place in the list. */
static bool read_pieces(struct vocab_source *s, struct json_cursor *c, struct err *e)
{
    size_t cap = 0;
    int more = json_cursor_take(c, '[') ? 1 : -1;
    while (more > 0 && (more = json_cursor_next(c, ']', s->n_tokens)) > 0) {
        struct json_span piece;
        if (s->n_tokens == VOCAB_IDS_MAX || !reserve(s, s->n_tokens, &cap, e) ||
            !json_cursor_take(c, '[') || !json_cursor_string(c, &piece) ||
            !json_cursor_take(c, ','))
            return err_field(e, ERR_FORMAT, "model.vocab", "entry %zu is no piece with a score",
                             s->n_tokens);
        json_cursor_peek(c);
        const char *number = c->p;
        if (!json_cursor_skip(c) || !json_cursor_take(c, ']'))
            return err_field(e, ERR_FORMAT, "model.vocab", "entry %zu has no score", s->n_tokens);
        s->scores[s->n_tokens] = strtod(number, NULL);
        s->tokens[s->n_tokens++] = (struct vocab_string){piece.at, piece.len};
    }
    return (more == 0 && s->n_tokens > 0) ||
           err_field(e, ERR_FORMAT, "model.vocab", "not a list of pieces");
}

static int base64_value(char c)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(letters, c) : NULL;
    return at ? (int)(at - letters) : -1;
}

/* The precompiled map of SentencePiece, from base64. */
static bool read_charsmap(struct vocab_source *s, const cJSON *n, struct err *e)
{
    const char *text = NULL;
    if (!json_get_string(n, "precompiled_charsmap", &text, e))
        return false;
    if (!text || !text[0])
        return true;
    const size_t len = strlen(text);
    char *out = arena_alloc(s->strings, len + 1);
    if (!out)
        return err_set(e, ERR_NOMEM, "out of memory for the map of characters");
    uint32_t bits = 0;
    size_t n_out = 0, n_in = 0;
    for (; n_in < len && text[n_in] != '='; n_in++) {
        const int v = base64_value(text[n_in]);
        if (v < 0)
            return err_field(e, ERR_FORMAT, "precompiled_charsmap", "not base64");
        bits = bits << 6 | (uint32_t)v;
        if (n_in % 4)
            out[n_out++] = (char)(bits >> (6 - n_in % 4 * 2) & 255);
    }
    s->charsmap = (struct vocab_string){out, n_out};
    return true;
}

/* *collapses: runs of spaces become one. */
static bool read_normalizer(struct vocab_source *s, const cJSON *n, int depth, bool *collapses,
                            struct err *e)
{
    if (!n)
        return true;
    if (is_type(n, "Precompiled"))
        return read_charsmap(s, n, e);
    const cJSON *pattern = json_member(n, "pattern");
    const cJSON *regex = json_member(pattern, "Regex"), *content = json_member(n, "content");
    if (is_type(n, "Replace") && cJSON_IsString(regex) && !strcmp(regex->valuestring, " {2,}") &&
        cJSON_IsString(content) && !strcmp(content->valuestring, " ")) {
        *collapses = true;
        return true;
    }
    if (!is_type(n, "Sequence") || depth > 4)
        return err_field(e, ERR_UNSUPPORTED, "normalizer", "%s is not known here", type_of(n));
    const cJSON *list = json_member(n, "normalizers");
    if (!cJSON_IsArray(list))
        return err_field(e, ERR_FORMAT, "normalizer", "a Sequence without its \"normalizers\"");
    for (const cJSON *one = list->child; one; one = one->next)
        if (!read_normalizer(s, one, depth + 1, collapses, e))
            return false;
    return true;
}

struct words { /* steps of the pre-tokenizer that were met */
    bool metaspace, split;
};

static bool read_metaspace(const cJSON *p, int depth, struct words *found, struct err *e)
{
    if (is_type(p, "WhitespaceSplit")) {
        found->split = true;
        return true;
    }
    const cJSON *scheme = json_member(p, "prepend_scheme");
    const cJSON *old = json_member(p, "add_prefix_space");
    if (is_type(p, "Metaspace")) {
        found->metaspace = true;
        return (cJSON_IsString(scheme) ? !strcmp(scheme->valuestring, "always")
                                       : !cJSON_IsFalse(old)) ||
               err_field(e, ERR_UNSUPPORTED, "pre_tokenizer.prepend_scheme", "want \"always\"");
    }
    if (!is_type(p, "Sequence") || depth > 4)
        return err_field(e, ERR_UNSUPPORTED, "pre_tokenizer", "%s; unigram wants Metaspace",
                         type_of(p));
    const cJSON *list = json_member(p, "pretokenizers");
    for (const cJSON *one = list ? list->child : NULL; one; one = one->next)
        if (!read_metaspace(one, depth + 1, found, e))
            return false;
    return true;
}

bool vocab_json_unigram(struct vocab_source *s, const struct cJSON *root, struct json_cursor vocab,
                        struct err *e)
{
    const cJSON *model = json_member(root, "model"), *pre = json_member(root, "pre_tokenizer");
    struct words words = {0};
    bool fallback = false, collapses = false;
    int64_t unknown = -1;
    if (!read_pieces(s, &vocab, e) || !json_get_bool(model, "byte_fallback", &fallback, e) ||
        !json_get_int(model, "unk_id", 0, (int64_t)s->n_tokens - 1, &unknown, e))
        return false;
    if (fallback || unknown < 0)
        return err_field(e, ERR_UNSUPPORTED, "model.unk_id",
                         "a unigram model without an unknown token, or with byte_fallback");
    s->unknown_id = (int32_t)unknown;
    if (pre && !read_metaspace(pre, 0, &words, e))
        return false;
    if (!words.metaspace)
        return err_field(e, ERR_UNSUPPORTED, "pre_tokenizer", "no Metaspace");
    if (!read_normalizer(s, json_member(root, "normalizer"), 0, &collapses, e))
        return false;
    s->words = words.split ? 0u : (unsigned)VOCAB_WORDS_END;
    return words.split || collapses ||
           err_field(e, ERR_UNSUPPORTED, "pre_tokenizer", "spaces that are words of their own");
}

/* --- what is put around a text --- */

static bool add_id(int32_t *ids, int32_t *n, double id)
{
    if (*n == VOCAB_AROUND_MAX || !(id >= 0 && id < VOCAB_IDS_MAX))
        return false;
    ids[(*n)++] = (int32_t)id;
    return true;
}

/* ["[SEP]", 102] */
static double pair_id(const cJSON *pair)
{
    const cJSON *id = cJSON_IsArray(pair) ? cJSON_GetArrayItem(pair, 1) : NULL;
    return cJSON_IsNumber(id) ? id->valuedouble : -1;
}

static bool read_fixed(struct vocab_around *a, const cJSON *p)
{
    const double cls = pair_id(json_member(p, "cls")), sep = pair_id(json_member(p, "sep"));
    const bool roberta = is_type(p, "RobertaProcessing");
    a->second_type = roberta ? 0 : 1;
    return add_id(a->before, &a->n_before, cls) && add_id(a->after, &a->n_after, sep) &&
           add_id(a->between, &a->n_between, sep) &&
           (!roberta || add_id(a->between, &a->n_between, sep));
}

/* The ids of a special token of a template. */
static bool add_special(const cJSON *specials, const cJSON *token, int32_t *ids, int32_t *n)
{
    const cJSON *name = json_member(token, "id");
    const cJSON *s = cJSON_IsString(name) ? json_member(specials, name->valuestring) : NULL;
    const cJSON *list = json_member(s, "ids");
    for (const cJSON *one = list ? list->child : NULL; one; one = one->next)
        if (!cJSON_IsNumber(one) || !add_id(ids, n, one->valuedouble))
            return false;
    return list != NULL;
}

/* Of a template's list: specials before A, between A and B, and behind the last one. */
static bool read_template(struct vocab_around *a, const cJSON *p)
{
    const cJSON *specials = json_member(p, "special_tokens");
    const cJSON *single = json_member(p, "single"), *pair = json_member(p, "pair");
    int seen = 0;
    for (const cJSON *one = single ? single->child : NULL; one; one = one->next) {
        const cJSON *token = json_member(one, "SpecialToken");
        seen += !token;
        if (token && !(seen ? add_special(specials, token, a->after, &a->n_after)
                            : add_special(specials, token, a->before, &a->n_before)))
            return false;
    }
    seen = 0;
    for (const cJSON *one = pair ? pair->child : NULL; one; one = one->next) {
        const cJSON *token = json_member(one, "SpecialToken"), *text = json_member(one, "Sequence");
        const cJSON *type = json_member(text, "type_id");
        seen += !token;
        if (seen == 2 && cJSON_IsNumber(type))
            a->second_type = type->valueint != 0;
        if (seen == 1 && token && !add_special(specials, token, a->between, &a->n_between))
            return false;
    }
    return true;
}

static bool read_around(struct vocab_around *a, const cJSON *p, int depth)
{
    if (is_type(p, "BertProcessing") || is_type(p, "RobertaProcessing"))
        return read_fixed(a, p);
    if (is_type(p, "TemplateProcessing"))
        return read_template(a, p);
    if (is_type(p, "ByteLevel"))
        return true;
    if (!is_type(p, "Sequence") || depth > 4)
        return false;
    const cJSON *list = json_member(p, "processors");
    for (const cJSON *one = list ? list->child : NULL; one; one = one->next)
        if (!read_around(a, one, depth + 1))
            return false;
    return true;
}

bool vocab_json_around(struct vocab_source *s, const struct cJSON *root, struct err *e)
{
    const cJSON *p = json_member(root, "post_processor");
    if (!p || cJSON_IsNull(p) || read_around(&s->around, p, 0))
        return true;
    s->around = (struct vocab_around){0};
    return s->kind == VOCAB_BPE ||
           err_field(e, ERR_UNSUPPORTED, "post_processor", "%s is not understood", type_of(p));
}
