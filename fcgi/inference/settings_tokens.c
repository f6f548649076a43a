/* settings.h: which tokens may be drawn, which end the answer, and how much of them is shown. Names
 * and meaning are vLLM's. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/inference/settings.h"

#define MAX_BAD_WORDS 256
#define MAX_BAD_WORD_BYTES 512

/* A member that is a list of token ids. */
struct id_list {
    const char *name;
    int most;
    int32_t n_vocab;
    const int32_t *ids; /* [n] in the arena: what was read */
    int32_t n;
};

static bool read_ids(const cJSON *o, struct arena *a, struct id_list *l, struct err *e)
{
    const char *name = l->name;
    const cJSON *list = NULL, *item;
    if (!json_get_array(o, name, &list, e))
        return false;
    const int n = cJSON_GetArraySize(list);
    if (n > l->most)
        return err_field(e, ERR_INPUT, name, "has %d token ids, at most %d are taken", n, l->most);
    int32_t *ids = arena_alloc(a, (size_t)(n ? n : 1) * sizeof *ids);
    if (!ids)
        return err_set(e, ERR_NOMEM, "no memory for %s", name);
    int32_t k = 0;
    cJSON_ArrayForEach (item, list) {
        if (!cJSON_IsNumber(item) || item->valuedouble != item->valueint || item->valueint < 0 ||
            item->valueint >= l->n_vocab)
            return err_field(e, ERR_INPUT, name, "must hold token ids from 0 to %d",
                             (int)l->n_vocab - 1);
        ids[k++] = item->valueint;
    }
    l->ids = ids;
    l->n = k;
    return true;
}

static bool encode(const struct text_model *m, const char *word, bool space, struct ids *out,
                   struct err *e)
{
    char text[1 + MAX_BAD_WORD_BYTES + 1];
    while (isspace((unsigned char)*word))
        word++;
    snprintf(text, sizeof text, "%s%s", space ? " " : "", word);
    return tokenizer_encode(
        m->tokenizer,
        &(struct tokenizer_input){.text = text, .len = strlen(text), .mode = TOKENIZE_PLAIN}, out,
        e);
}

static bool push_sequence(struct ids *banned, const struct ids *word)
{
    bool ok = ids_push(banned, (int32_t)word->n);
    for (size_t i = 0; ok && i < word->n; i++)
        ok = ids_push(banned, word->at[i]);
    return ok;
}

/* The word's tokens at the beginning of a text, and those behind a space. */
static bool ban_word(const struct text_model *m, const char *word, struct ids *banned,
                     struct err *e)
{
    struct ids bare = {0}, behind = {0};
    bool ok = encode(m, word, false, &bare, e) && encode(m, word, true, &behind, e);
    if (ok && !bare.n)
        ok = err_field(e, ERR_INPUT, "bad_words", "must hold texts of more than white space");
    else if (ok && !(push_sequence(banned, &bare) && push_sequence(banned, &behind)))
        ok = err_set(e, ERR_NOMEM, "no memory for bad_words");
    ids_fini(&bare);
    ids_fini(&behind);
    return ok;
}

static bool ban_words(const cJSON *list, const struct text_model *m, struct ids *banned,
                      struct err *e)
{
    const cJSON *item;
    if (cJSON_GetArraySize(list) > MAX_BAD_WORDS)
        return err_field(e, ERR_INPUT, "bad_words", "has %d words, at most %d are taken",
                         cJSON_GetArraySize(list), MAX_BAD_WORDS);
    cJSON_ArrayForEach (item, list) {
        if (!cJSON_IsString(item) || !*item->valuestring ||
            strlen(item->valuestring) > MAX_BAD_WORD_BYTES)
            return err_field(e, ERR_INPUT, "bad_words", "must hold texts of 1 to %d bytes",
                             MAX_BAD_WORD_BYTES);
        if (!ban_word(m, item->valuestring, banned, e))
            return false;
    }
    return banned->n <= ENGINE_MAX_BANNED ||
           err_field(e, ERR_INPUT, "bad_words", "are more than %d tokens", ENGINE_MAX_BANNED);
}

static bool read_bad_words(struct settings *s, const cJSON *o, const struct text_model *m,
                           struct arena *a, struct err *e)
{
    const cJSON *list = NULL;
    struct ids banned = {0};
    if (!json_get_array(o, "bad_words", &list, e))
        return false;
    bool ok = ban_words(list, m, &banned, e);
    if (ok && banned.n) {
        s->banned =
            (const int32_t *)arena_copy(a, (const char *)banned.at, banned.n * sizeof *banned.at);
        s->n_banned = (int32_t)banned.n;
        ok = s->banned || err_set(e, ERR_NOMEM, "no memory for bad_words");
    }
    ids_fini(&banned);
    return ok;
}

static bool read_min_tokens(struct settings *s, const cJSON *o, struct err *e)
{
    int64_t least = 0;
    if (!json_get_int(o, "min_tokens", 0, INT32_MAX, &least, e))
        return false;
    if (s->max_tokens >= 0 && least > s->max_tokens)
        return err_field(e, ERR_INPUT, "min_tokens", "is %lld, but the answer may have %d tokens",
                         (long long)least, s->max_tokens);
    s->min_tokens = (int32_t)least;
    return true;
}

static bool read_shown(struct settings *s, const cJSON *o, struct err *e)
{
    bool kept = false, untrimmed = false, skip = true;
    if (!json_get_bool(o, "ignore_eos", &s->ignore_eos, e) ||
        !json_get_bool(o, "include_stop_str_in_output", &kept, e) ||
        !json_get_bool(o, "no_stop_trim", &untrimmed, e) ||
        !json_get_bool(o, "skip_special_tokens", &skip, e))
        return false;
    s->keep_stop = kept || untrimmed;
    s->special_text = !skip;
    return true;
}

bool settings_read_tokens(struct settings *s, const cJSON *o, const struct text_model *m,
                          struct arena *a, struct err *e)
{
    struct id_list stop = {.name = "stop_token_ids", .most = ENGINE_MAX_STOP_IDS};
    struct id_list allowed = {.name = "allowed_token_ids", .most = ENGINE_MAX_ALLOWED_IDS};
    stop.n_vocab = allowed.n_vocab = (int32_t)vocab_size(m->vocab);
    if (!read_min_tokens(s, o, e) || !read_shown(s, o, e) || !read_ids(o, a, &stop, e) ||
        !read_ids(o, a, &allowed, e))
        return false;
    s->stop_ids = stop.ids;
    s->n_stop_ids = stop.n;
    s->allowed_ids = allowed.ids;
    s->n_allowed_ids = allowed.n;
    return read_bad_words(s, o, m, a, e);
}
