/* Opens the text side of a model folder: its vocabulary, chat template and defaults. Each of the
 * small JSON files may be missing but the tokenizer's. */
#include "engine/text/text_model.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "engine/format/gguf.h"
#include "engine/text/text_gguf.h"

enum { CONFIG_MAX = 16 << 20, TEMPLATE_MAX = 1 << 20 };

/* An optional file of the folder: *out stays NULL when it isn't there. */
static bool read_json(const char *dir, const char *name, cJSON **out, struct err *e)
{
    char path[4096];
    if (!file_join(path, sizeof path, dir, name, e))
        return false;
    if (!file_exists(path))
        return true;
    *out = json_parse_file(path, CONFIG_MAX, e);
    if (*out && !cJSON_IsObject(*out))
        return err_set(e, ERR_FORMAT, "%s: not a JSON object", path);
    return *out != NULL;
}

static void add_eos(struct text_model *m, int32_t id)
{
    for (int i = 0; i < m->n_eos; i++)
        if (m->eos[i] == id)
            return;
    if (id >= 0 && id < vocab_size(m->vocab) && m->n_eos < (int)(sizeof m->eos / sizeof m->eos[0]))
        m->eos[m->n_eos++] = id;
}

/* eos_token_id: a number or a list of them. Ids without a token are left out, since a model's
 * configuration may name places of the padded embedding. */
static bool read_eos(struct text_model *m, const cJSON *config, const char *file, struct err *e)
{
    const cJSON *v = config ? json_member(config, "eos_token_id") : NULL;
    if (!v)
        return true;
    const cJSON *one = cJSON_IsArray(v) ? v->child : v;
    for (; one; one = cJSON_IsArray(v) ? one->next : NULL) {
        if (!cJSON_IsNumber(one))
            return err_field(e, ERR_FORMAT, "eos_token_id", "%s: not a number or list of numbers",
                             file);
        add_eos(m, one->valueint);
    }
    return true;
}

/* A token in tokenizer_config.json: a string, or an object with its content. */
static const char *config_token(const cJSON *config, const char *name)
{
    const cJSON *v = config ? json_member(config, name) : NULL;
    if (cJSON_IsObject(v))
        v = json_member(v, "content");
    return cJSON_IsString(v) ? v->valuestring : NULL;
}

static bool read_float(const cJSON *o, const char *name, double max, float *out, struct err *e)
{
    double v = *out;
    if (!json_get_number(o, name, 0, max, &v, e))
        return false;
    *out = (float)v;
    return true;
}

static bool read_generation(struct text_model *m, const cJSON *g, struct err *e)
{
    int64_t top_k = 0;
    bool sample = true;
    if (!g)
        return true;
    if (!read_float(g, "temperature", 100, &m->temperature, e) ||
        !read_float(g, "top_p", 1, &m->top_p, e) || !read_float(g, "min_p", 1, &m->min_p, e) ||
        !read_float(g, "repetition_penalty", 100, &m->repetition_penalty, e) ||
        !json_get_int(g, "top_k", -1, INT32_MAX, &top_k, e) ||
        !json_get_bool(g, "do_sample", &sample, e))
        return err_prefix(e, "generation_config.json");
    m->top_k = top_k > 0 ? (int)top_k : 0;
    if (m->repetition_penalty == 0)
        m->repetition_penalty = 1;
    if (!sample && json_member(g, "do_sample"))
        m->temperature = 0;
    return true;
}

/* Multimodal models keep the text part's numbers in text_config. */
static bool read_config(struct text_model *m, const cJSON *config, struct err *e)
{
    const cJSON *text = NULL;
    int64_t n_ctx = 0;
    if (!config)
        return true;
    if (!json_get_object(config, "text_config", &text, e) ||
        !json_get_int(config, "max_position_embeddings", 0, INT32_MAX, &n_ctx, e) ||
        (text && !json_get_int(text, "max_position_embeddings", 0, INT32_MAX, &n_ctx, e)))
        return err_prefix(e, "config.json");
    m->n_ctx = (int32_t)n_ctx;
    return read_eos(m, config, "config.json", e) && read_eos(m, text, "config.json", e);
}

/* The "default" of a list of named templates, or the first. */
static const char *named_template(const cJSON *list)
{
    const char *found = NULL;
    for (const cJSON *t = list->child; t; t = t->next) {
        const cJSON *name = json_member(t, "name"), *text = json_member(t, "template");
        if (!cJSON_IsString(name) || !cJSON_IsString(text))
            continue;
        if (!found || !strcmp(name->valuestring, "default"))
            found = text->valuestring;
    }
    return found;
}

static const char *template_in(const cJSON *o)
{
    const cJSON *v = o ? json_member(o, "chat_template") : NULL;
    if (cJSON_IsArray(v))
        return named_template(v);
    return cJSON_IsString(v) ? v->valuestring : NULL;
}

/* A file of its own goes before tokenizer_config.json, as in transformers. */
static bool read_template(struct text_model *m, const char *dir, const cJSON *config, struct err *e)
{
    char path[4096];
    struct buf own = {0};
    cJSON *json = NULL;
    const char *source = NULL;
    bool ok = file_join(path, sizeof path, dir, "chat_template.jinja", e);
    if (ok && file_exists(path)) {
        ok = file_read(path, TEMPLATE_MAX, &own, e);
        source = own.data ? own.data : "";
    } else if (ok) {
        ok = read_json(dir, "chat_template.json", &json, e);
        source = template_in(json) ? template_in(json) : template_in(config);
    }
    if (ok && source) {
        m->chat_template = chat_template_compile(source, own.data ? own.len : strlen(source),
                                                 config_token(config, "bos_token"),
                                                 config_token(config, "eos_token"), e);
        ok = m->chat_template || err_prefix(e, "chat template");
    }
    buf_fini(&own);
    cJSON_Delete(json);
    return ok;
}

static void set_name(struct text_model *m, const char *model)
{
    size_t end = strlen(model);
    while (end > 1 && model[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && model[start - 1] != '/')
        start--;
    size_t n = end - start < sizeof m->name ? end - start : sizeof m->name - 1;
    memcpy(m->name, model + start, n);
    m->name[n] = 0;
}

static bool read_folder(struct text_model *m, const char *dir, struct err *e)
{
    cJSON *config = NULL, *generation = NULL, *tokens = NULL;
    bool ok = read_json(dir, "config.json", &config, e) &&
              read_json(dir, "generation_config.json", &generation, e) &&
              read_json(dir, "tokenizer_config.json", &tokens, e) &&
              read_eos(m, generation, "generation_config.json", e) && read_config(m, config, e) &&
              read_generation(m, generation, e);
    const char *eos = config_token(tokens, "eos_token");
    if (ok && eos)
        add_eos(m, vocab_find(m->vocab, eos, strlen(eos)));
    ok = ok && read_template(m, dir, tokens, e);
    cJSON_Delete(config);
    cJSON_Delete(generation);
    cJSON_Delete(tokens);
    return ok;
}

/* Reads everything but the tokenizer, from a folder's files or from GGUF metadata. */
static bool read_rest(struct text_model *m, const char *model, struct err *e)
{
    char inside[4096];
    if (!file_is_dir(model)) {
        size_t n = strlen(model);
        return n < 5 || strcmp(model + n - 5, ".gguf") || text_gguf_read(m, model, e);
    }
    if (!file_join(inside, sizeof inside, model, "tokenizer.json", e))
        return false;
    if (!file_exists(inside) && gguf_in_folder(model, inside, sizeof inside, NULL))
        return text_gguf_read(m, inside, e);
    return read_folder(m, model, e);
}

bool text_model_open(struct text_model *m, const char *model, const char *cache_dir, struct err *e)
{
    *m = (struct text_model){.temperature = 1, .top_p = 1, .repetition_penalty = 1};
    set_name(m, model);
    bool ok = (m->vocab = vocab_load(model, cache_dir, e)) &&
              (m->tokenizer = tokenizer_create(m->vocab, e)) && read_rest(m, model, e);
    if (!ok)
        text_model_close(m);
    return ok;
}

void text_model_close(struct text_model *m)
{
    chat_template_destroy(&m->chat_template);
    tokenizer_destroy(&m->tokenizer);
    vocab_close(&m->vocab);
    *m = (struct text_model){0};
}
