/* tokenizer.json to vocab_source: byte-level BPE as Hugging Face `tokenizers` writes it. What it does
 * not know it refuses by name, since a rule left out would silently give other ids. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/text/vocab_source.h"

/* What ByteLevel splits by when use_regex is true (GPT-2). */
static const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static struct vocab_string view(const char *s)
{
    return (struct vocab_string){s, strlen(s)};
}

static const char *type_of(const cJSON *o)
{
    const cJSON *t = json_member(o, "type");
    return cJSON_IsString(t) ? t->valuestring : "(none)";
}

/* A string member that must be absent, null or empty. */
static bool want_empty(const cJSON *model, const char *name, struct err *e)
{
    const cJSON *m = json_member(model, name);
    if (m && !(cJSON_IsString(m) && !m->valuestring[0]))
        return err_field(e, ERR_UNSUPPORTED, name, "only byte-level BPE without it is read");
    return true;
}

static bool read_tokens(struct vocab_source *s, const cJSON *vocab, struct err *e)
{
    int64_t max = -1;
    for (const cJSON *t = vocab->child; t; t = t->next) {
        if (!cJSON_IsNumber(t) || t->valuedouble < 0 || t->valuedouble >= VOCAB_IDS_MAX ||
            t->valuedouble != (double)(int64_t)t->valuedouble)
            return err_field(e, ERR_FORMAT, "model.vocab", "an id is not an integer in 0 to %d",
                             VOCAB_IDS_MAX - 1);
        if (t->valueint > max)
            max = t->valueint;
    }
    if (max < 0)
        return err_field(e, ERR_FORMAT, "model.vocab", "no tokens");
    s->tokens = calloc((size_t)max + 1, sizeof *s->tokens);
    if (!s->tokens)
        return err_set(e, ERR_NOMEM, "out of memory for %lld tokens", (long long)max + 1);
    s->n_tokens = (size_t)max + 1;
    for (const cJSON *t = vocab->child; t; t = t->next) {
        if (s->tokens[t->valueint].at)
            return err_field(e, ERR_FORMAT, "model.vocab", "id %d is given twice", t->valueint);
        s->tokens[t->valueint] = view(t->string);
    }
    return true;
}

/* "a b" or ["a", "b"] */
static bool read_merge(struct vocab_merge *m, const cJSON *v)
{
    if (cJSON_IsString(v)) {
        const char *space = strchr(v->valuestring, ' ');
        if (!space || strchr(space + 1, ' '))
            return false;
        m->left = (struct vocab_string){v->valuestring, (size_t)(space - v->valuestring)};
        m->right = view(space + 1);
        return true;
    }
    const cJSON *l = v->child, *r = l ? l->next : NULL;
    if (!cJSON_IsArray(v) || !r || r->next || !cJSON_IsString(l) || !cJSON_IsString(r))
        return false;
    m->left = view(l->valuestring);
    m->right = view(r->valuestring);
    return true;
}

static bool read_merges(struct vocab_source *s, const cJSON *merges, struct err *e)
{
    size_t n = 0;
    for (const cJSON *m = merges->child; m; m = m->next)
        n++;
    s->merges = calloc(n + 1, sizeof *s->merges);
    if (!s->merges)
        return err_set(e, ERR_NOMEM, "out of memory for %zu merges", n);
    for (const cJSON *m = merges->child; m; m = m->next)
        if (!read_merge(&s->merges[s->n_merges++], m))
            return err_field(e, ERR_FORMAT, "model.merges", "merge %zu is not two tokens",
                             s->n_merges - 1);
    return true;
}

static bool read_model(struct vocab_source *s, const cJSON *root, struct err *e)
{
    const cJSON *model = NULL, *vocab = NULL, *merges = NULL;
    bool fallback = false;
    if (!json_get_object(root, "model", &model, e))
        return false;
    if (!model)
        return err_field(e, ERR_FORMAT, "model", "missing");
    /* files from before the type was written have merges */
    if (json_member(model, "type") && strcmp(type_of(model), "BPE"))
        return err_field(e, ERR_UNSUPPORTED, "model.type", "%s; only BPE is read", type_of(model));
    if (!want_empty(model, "continuing_subword_prefix", e) ||
        !want_empty(model, "end_of_word_suffix", e) || !want_empty(model, "dropout", e) ||
        !json_get_bool(model, "byte_fallback", &fallback, e) ||
        !json_get_bool(model, "ignore_merges", &s->ignore_merges, e) ||
        !json_get_object(model, "vocab", &vocab, e) ||
        !json_get_array(model, "merges", &merges, e))
        return false;
    s->unknown_token = json_member(model, "unk_token") != NULL;
    if (fallback)
        return err_field(e, ERR_UNSUPPORTED, "model.byte_fallback",
                         "SentencePiece-style vocabularies are not read, only byte-level BPE");
    if (!vocab || !merges)
        return err_field(e, ERR_FORMAT, vocab ? "model.merges" : "model.vocab", "missing");
    return read_tokens(s, vocab, e) && read_merges(s, merges, e);
}

static bool read_added(struct vocab_source *s, const cJSON *root, struct err *e)
{
    static const struct {
        const char *name;
        unsigned flag;
    } flags[] = {{"special", VOCAB_ADDED_SPECIAL}, {"lstrip", VOCAB_ADDED_LSTRIP},
                 {"rstrip", VOCAB_ADDED_RSTRIP},   {"single_word", VOCAB_ADDED_WORD},
                 {"normalized", VOCAB_ADDED_NORMALIZED}};
    const cJSON *list = NULL;
    if (!json_get_array(root, "added_tokens", &list, e))
        return false;
    size_t n = list ? (size_t)cJSON_GetArraySize(list) : 0;
    s->added = calloc(n + 1, sizeof *s->added);
    if (!s->added)
        return err_set(e, ERR_NOMEM, "out of memory for %zu added tokens", n);
    for (const cJSON *t = list ? list->child : NULL; t; t = t->next) {
        struct vocab_added a = {.id = -1};
        int64_t id = -1;
        const char *text = NULL;
        if (!cJSON_IsObject(t) || !json_get_int(t, "id", 0, VOCAB_IDS_MAX - 1, &id, e) ||
            !json_get_string(t, "content", &text, e) || id < 0 || !text)
            return err_field(e, ERR_FORMAT, "added_tokens", "entry %zu has no id or content",
                             s->n_added);
        a.id = (int32_t)id;
        a.text = view(text);
        for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
            bool on = false;
            if (!json_get_bool(t, flags[i].name, &on, e))
                return false;
            a.flags |= on ? flags[i].flag : 0;
        }
        if (text[0])
            s->added[s->n_added++] = a;
    }
    return true;
}

static bool read_normalizer(struct vocab_source *s, const cJSON *n, int depth, struct err *e)
{
    if (!n)
        return true;
    const char *type = type_of(n);
    if (!strcmp(type, "NFC")) {
        s->nfc = true;
        return true;
    }
    if (strcmp(type, "Sequence") || depth > 4)
        return err_field(e, ERR_UNSUPPORTED, "normalizer", "%s; only NFC is known", type);
    const cJSON *list = NULL;
    if (!json_get_array(n, "normalizers", &list, e))
        return false;
    for (const cJSON *c = list ? list->child : NULL; c; c = c->next)
        if (!read_normalizer(s, c, depth + 1, e))
            return false;
    return true;
}

static bool add_split(struct vocab_source *s, const char *pattern, enum vocab_split_kind kind,
                      struct err *e)
{
    if (s->n_splits == VOCAB_SPLITS_MAX)
        return err_field(e, ERR_LIMIT, "pre_tokenizer", "more than %d steps", VOCAB_SPLITS_MAX);
    s->splits[s->n_splits++] = (struct vocab_split){view(pattern), kind};
    return true;
}

static bool read_split(struct vocab_source *s, const cJSON *p, struct err *e)
{
    const char *behavior = "", *regex = NULL;
    bool invert = false;
    const cJSON *pattern = NULL;
    if (!json_get_string(p, "behavior", &behavior, e) || !json_get_bool(p, "invert", &invert, e) ||
        !json_get_object(p, "pattern", &pattern, e))
        return false;
    if (!pattern || !json_get_string(pattern, "Regex", &regex, e) || !regex)
        return err_field(e, ERR_UNSUPPORTED, "pre_tokenizer.pattern", "not a regular expression");
    if (!strcmp(behavior, "Isolated"))
        return add_split(s, regex, VOCAB_SPLIT_ISOLATED, e);
    if (!strcmp(behavior, "Removed"))
        return add_split(s, regex, invert ? VOCAB_SPLIT_MATCHES : VOCAB_SPLIT_GAPS, e);
    return err_field(e, ERR_UNSUPPORTED, "pre_tokenizer.behavior", "%s", behavior);
}

static bool read_byte_level(struct vocab_source *s, const cJSON *p, struct err *e)
{
    bool prefix = true, regex = true; /* the defaults of `tokenizers` */
    if (!json_get_bool(p, "add_prefix_space", &prefix, e) ||
        !json_get_bool(p, "use_regex", &regex, e))
        return false;
    if (prefix && s->n_splits > 0)
        return err_field(e, ERR_UNSUPPORTED, "pre_tokenizer.add_prefix_space", "after a split");
    s->prefix_space = prefix;
    return !regex || add_split(s, gpt2_pattern, VOCAB_SPLIT_ISOLATED, e);
}

/* Sets *byte_level when that step was met: it must be there, and last. */
static bool read_pre_tokenizer(struct vocab_source *s, const cJSON *p, int depth, bool *byte_level,
                               struct err *e)
{
    const char *type = type_of(p);
    if (*byte_level)
        return err_field(e, ERR_UNSUPPORTED, "pre_tokenizer", "%s after ByteLevel", type);
    if (!strcmp(type, "Split"))
        return read_split(s, p, e);
    if (!strcmp(type, "ByteLevel")) {
        *byte_level = true;
        return read_byte_level(s, p, e);
    }
    if (!strcmp(type, "Digits")) {
        bool one = false;
        return json_get_bool(p, "individual_digits", &one, e) &&
               add_split(s, one ? "\\p{N}" : "\\p{N}+", VOCAB_SPLIT_ISOLATED, e);
    }
    if (strcmp(type, "Sequence") || depth > 4)
        return err_field(e, ERR_UNSUPPORTED, "pre_tokenizer", "%s is not known", type);
    const cJSON *list = NULL;
    if (!json_get_array(p, "pretokenizers", &list, e))
        return false;
    for (const cJSON *c = list ? list->child : NULL; c; c = c->next)
        if (!read_pre_tokenizer(s, c, depth + 1, byte_level, e))
            return false;
    return true;
}

bool vocab_source_json(struct vocab_source *s, const struct cJSON *root, struct err *e)
{
    const cJSON *pre = NULL;
    bool byte_level = false;
    if (!cJSON_IsObject(root))
        return err_set(e, ERR_FORMAT, "not a tokenizer: no JSON object");
    if (!read_model(s, root, e) || !read_added(s, root, e) ||
        !read_normalizer(s, json_member(root, "normalizer"), 0, e))
        return false;
    if (!json_get_object(root, "pre_tokenizer", &pre, e))
        return false;
    if (pre && !read_pre_tokenizer(s, pre, 0, &byte_level, e))
        return false;
    if (!byte_level)
        return err_field(e, ERR_UNSUPPORTED, "pre_tokenizer", "no ByteLevel step");
    return true;
}
