/* tokenizer.json to vocab_source: byte-level BPE as Hugging Face `tokenizers` writes it; what only
 * encoders have is in vocab_json_words.c. What it does not know it refuses by name, since a rule
 * left out would silently give other ids. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/json/json.h"
#include "engine/base/json/json_cursor.h"
#include "engine/tokenizer/vocab_json_words.h"
#include "engine/tokenizer/vocab_source.h"

enum { REST_MAX = 64 << 20 };

/* The pattern that ByteLevel splits by when use_regex is true (GPT-2). */
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

static struct vocab_string string_of(struct json_span s)
{
    return (struct vocab_string){s.at, s.len};
}

/* Grows *list to hold one more; it holds n. */
static bool grow(void **list, size_t n, size_t size, struct err *e)
{
    if (n & (n - 1) || (n && n < 1024)) /* doubled at powers of two, from 1024 on */
        return true;
    void *p = realloc(*list, (n ? n * 2 : 1024) * size);
    if (!p)
        return err_set(e, ERR_NOMEM, "out of memory for the vocabulary");
    *list = p;
    return true;
}

/* {"token": id, ...}, ids in any order */
static bool read_tokens(struct vocab_source *s, struct json_cursor *c, struct err *e)
{
    size_t n = 0, cap = 0;
    int more = json_cursor_take(c, '{') ? 1 : -1;
    for (; more > 0 && (more = json_cursor_next(c, '}', n)) > 0; n++) {
        struct json_span name;
        int64_t id;
        if (!json_cursor_key(c, &name) || !json_cursor_int(c, VOCAB_IDS_MAX - 1, &id))
            return err_field(e, ERR_FORMAT, "model.vocab",
                             "entry %zu is no token with an id from 0 to %d", n, VOCAB_IDS_MAX - 1);
        if ((size_t)id >= cap) {
            size_t want = (size_t)id + 1 > cap * 2 ? (size_t)id + 1 : cap * 2;
            struct vocab_string *p = realloc(s->tokens, want * sizeof *p);
            if (!p)
                return err_set(e, ERR_NOMEM, "out of memory for %zu tokens", want);
            memset(p + cap, 0, (want - cap) * sizeof *p);
            s->tokens = p;
            cap = want;
        }
        if (s->tokens[id].at)
            return err_field(e, ERR_FORMAT, "model.vocab", "id %d is given twice", (int)id);
        s->tokens[id] = string_of(name);
        if ((size_t)id >= s->n_tokens)
            s->n_tokens = (size_t)id + 1;
    }
    if (more < 0)
        return err_field(e, ERR_FORMAT, "model.vocab", "not an object (entry %zu)", n);
    return n > 0 || err_field(e, ERR_FORMAT, "model.vocab", "no tokens");
}

/* "a b" or ["a", "b"] */
static bool read_merge(struct vocab_merge *m, struct json_cursor *c)
{
    struct json_span l, r;
    if (json_cursor_peek(c) == '"') {
        if (!json_cursor_string(c, &l))
            return false;
        const char *space = memchr(l.at, ' ', l.len), *end = l.at + l.len;
        if (!space || memchr(space + 1, ' ', (size_t)(end - space - 1)))
            return false;
        m->left = (struct vocab_string){l.at, (size_t)(space - l.at)};
        m->right = (struct vocab_string){space + 1, (size_t)(end - space - 1)};
        return true;
    }
    if (!json_cursor_take(c, '[') || !json_cursor_string(c, &l) || !json_cursor_take(c, ',') ||
        !json_cursor_string(c, &r) || !json_cursor_take(c, ']'))
        return false;
    m->left = string_of(l);
    m->right = string_of(r);
    return true;
}

static bool read_merges(struct vocab_source *s, struct json_cursor *c, struct err *e)
{
    int more = json_cursor_take(c, '[') ? 1 : -1;
    while (more > 0 && (more = json_cursor_next(c, ']', s->n_merges)) > 0) {
        void *list = s->merges;
        bool ok = grow(&list, s->n_merges, sizeof *s->merges, e);
        s->merges = list;
        if (!ok)
            return false;
        if (!read_merge(&s->merges[s->n_merges], c))
            return err_field(e, ERR_FORMAT, "model.merges", "merge %zu is not two tokens",
                             s->n_merges);
        s->n_merges++;
    }
    return more == 0 ||
           err_field(e, ERR_FORMAT, "model.merges", "not an array (merge %zu)", s->n_merges);
}

/* The large members' places in the text. */
struct large {
    struct json_span vocab, merges; /* at NULL: not there */
};

static bool is_key(struct json_span key, const char *name)
{
    return key.len == strlen(name) && !memcmp(key.at, name, key.len);
}

/* Walks one object; of members named in names[], the first gives its place. */
static bool find_members(struct json_cursor *c, const char *const names[],
                         struct json_span *const at[], size_t n_names)
{
    if (!json_cursor_take(c, '{'))
        return false;
    int more;
    for (size_t n = 0; (more = json_cursor_next(c, '}', n)) > 0; n++) {
        struct json_span key;
        if (!json_cursor_key(c, &key))
            return false;
        json_cursor_peek(c);
        const char *start = c->p;
        if (!json_cursor_skip(c))
            return false;
        for (size_t i = 0; i < n_names; i++)
            if (is_key(key, names[i]) && !at[i]->at)
                *at[i] = (struct json_span){start, (size_t)(c->p - start)};
    }
    return more == 0;
}

/* Where text isn't JSON this finds nothing, and json_parse will say why. */
static struct large find_large(const char *text, size_t len, struct arena *arena)
{
    struct large l = {{NULL, 0}, {NULL, 0}};
    struct json_span model = {NULL, 0};
    struct json_cursor c = {text, text + len, arena};
    find_members(&c, (const char *const[]){"model"}, (struct json_span *const[]){&model}, 1);
    if (!model.at)
        return l;
    c = (struct json_cursor){model.at, model.at + model.len, arena};
    find_members(&c, (const char *const[]){"vocab", "merges"},
                 (struct json_span *const[]){&l.vocab, &l.merges}, 2);
    return l;
}

/* The text with the large members' values written as null, to a tree: s->tree. */
static bool parse_rest(struct vocab_source *s, const char *text, size_t len, const struct large *l,
                       struct err *e)
{
    struct json_limits limits = {
        .max_bytes = REST_MAX, .allow_duplicates = true, .allow_nul = true};
    struct json_span cuts[2] = {l->vocab, l->merges};
    struct buf rest = {.limit = REST_MAX};
    if (!cuts[0].at || (cuts[1].at && cuts[1].at < cuts[0].at)) {
        cuts[0] = l->merges;
        cuts[1] = l->vocab;
    }
    const char *from = text;
    for (int i = 0; i < 2; i++)
        if (cuts[i].at) {
            buf_append(&rest, from, (size_t)(cuts[i].at - from));
            buf_puts(&rest, "null");
            from = cuts[i].at + cuts[i].len;
        }
    buf_append(&rest, from, (size_t)(text + len - from));
    if (rest.failed)
        err_set(e, ERR_LIMIT, "over %d bytes beside vocabulary and merges", REST_MAX);
    else
        s->tree = json_parse(rest.data ? rest.data : "", rest.len, &limits, e);
    buf_fini(&rest);
    return s->tree != NULL;
}

static bool read_bpe(struct vocab_source *s, const cJSON *model, const struct large *l,
                     struct err *e)
{
    bool fallback = false;
    /* files from before the type was written have merges */
    if (json_member(model, "type") && strcmp(type_of(model), "BPE"))
        return err_field(e, ERR_UNSUPPORTED, "model.type",
                         "%s; BPE, WordPiece and Unigram are read", type_of(model));
    if (!want_empty(model, "continuing_subword_prefix", e) ||
        !want_empty(model, "end_of_word_suffix", e) || !want_empty(model, "dropout", e) ||
        !json_get_bool(model, "byte_fallback", &fallback, e) ||
        !json_get_bool(model, "ignore_merges", &s->ignore_merges, e))
        return false;
    s->unknown_token = json_member(model, "unk_token") != NULL;
    if (fallback)
        return err_field(e, ERR_UNSUPPORTED, "model.byte_fallback",
                         "SentencePiece-style vocabularies are not read, only byte-level BPE");
    if (!l->vocab.at || !l->merges.at)
        return err_field(e, ERR_FORMAT, l->vocab.at ? "model.merges" : "model.vocab", "missing");
    struct json_cursor vocab = {l->vocab.at, l->vocab.at + l->vocab.len, s->strings};
    struct json_cursor merges = {l->merges.at, l->merges.at + l->merges.len, s->strings};
    return read_tokens(s, &vocab, e) && read_merges(s, &merges, e);
}

static bool read_model(struct vocab_source *s, const struct large *l, struct err *e)
{
    const cJSON *model = NULL;
    if (!json_get_object(s->tree, "model", &model, e))
        return false;
    if (!model)
        return err_field(e, ERR_FORMAT, "model", "missing");
    const bool wordpiece = !strcmp(type_of(model), "WordPiece");
    s->kind = wordpiece                            ? VOCAB_WORDPIECE
              : !strcmp(type_of(model), "Unigram") ? VOCAB_UNIGRAM
                                                   : VOCAB_BPE;
    if (s->kind == VOCAB_BPE)
        return read_bpe(s, model, l, e);
    if (!l->vocab.at)
        return err_field(e, ERR_FORMAT, "model.vocab", "missing");
    struct json_cursor vocab = {l->vocab.at, l->vocab.at + l->vocab.len, s->strings};
    return wordpiece ? read_tokens(s, &vocab, e) && vocab_json_wordpiece(s, s->tree, e)
                     : vocab_json_unigram(s, s->tree, vocab, e);
}

static bool read_added(struct vocab_source *s, const cJSON *root, struct err *e)
{
    static const struct {
        const char *name;
        unsigned flag;
    } flags[] = {{"special", VOCAB_ADDED_SPECIAL},
                 {"lstrip", VOCAB_ADDED_LSTRIP},
                 {"rstrip", VOCAB_ADDED_RSTRIP},
                 {"single_word", VOCAB_ADDED_WORD},
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

static bool read_rules(struct vocab_source *s, struct err *e)
{
    const cJSON *pre = NULL;
    bool byte_level = false;
    if (!read_added(s, s->tree, e) || !vocab_json_around(s, s->tree, e))
        return false;
    if (s->kind != VOCAB_BPE)
        return true;
    if (!read_normalizer(s, json_member(s->tree, "normalizer"), 0, e) ||
        !json_get_object(s->tree, "pre_tokenizer", &pre, e))
        return false;
    if (pre && !read_pre_tokenizer(s, pre, 0, &byte_level, e))
        return false;
    return byte_level || err_field(e, ERR_UNSUPPORTED, "pre_tokenizer", "no ByteLevel step");
}

bool vocab_source_json(struct vocab_source *s, const char *text, size_t len, struct err *e)
{
    s->strings = arena_create(0);
    if (!s->strings)
        return err_set(e, ERR_NOMEM, "out of memory");
    struct large l = find_large(text, len, s->strings);
    bool ok = parse_rest(s, text, len, &l, e);
    if (ok && !cJSON_IsObject(s->tree))
        ok = err_set(e, ERR_FORMAT, "not a tokenizer: no JSON object");
    ok = ok && read_model(s, &l, e) && read_rules(s, e);
    if (!ok && e && e->code == ERR_INPUT) /* the reader's code is for requests */
        e->code = ERR_FORMAT;
    return ok;
}
