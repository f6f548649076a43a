/* llamacpp.h: the request. llama.cpp's names are changed into ours in the body's own tree, so that
 * one reader checks both; an error about a member that was renamed gets the name that the client
 * sent. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/request.h"
#include "fcgi/llamacpp/llamacpp.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/process/worker.h"

#define RANDOM_SEED 4294967295.0 /* llama.cpp's other word for -1 */
#define FORBIDDEN (-100.0)       /* OpenAI's bias that keeps a token out */
#define MAX_BIAS_TEXT 256        /* bytes; a list of longer ones would be too many tokens */

static const struct field_row fields[] = {
    FIELD_ROWS_OF_LLAMACPP, FIELD_ROWS_OF_SAMPLING, FIELD_ROWS_OF_LENGTH,
    FIELD_ROWS_OF_FORMS,    {NULL, FIELD_READ},
};
static const struct field_row infill_fields[] = {
    {"input_prefix", FIELD_READ}, {"input_suffix", FIELD_READ}, {"input_extra", FIELD_READ},
    FIELD_ROWS_OF_LLAMACPP,       FIELD_ROWS_OF_SAMPLING,       FIELD_ROWS_OF_LENGTH,
    FIELD_ROWS_OF_FORMS,          {NULL, FIELD_READ},
};

/* ---- llama.cpp's names and values become ours ---- */

static const struct rename {
    const char *from, *to;
} renames[] = {{"n_cmpl", "n"}};

static bool rename_members(cJSON *body, struct err *e)
{
    for (size_t i = 0; i < sizeof renames / sizeof renames[0]; i++) {
        const struct rename *row = &renames[i];
        if (!json_member(body, row->from))
            continue;
        if (json_member(body, row->to))
            return err_field(e, ERR_INPUT, row->from, "does not go with %s: they are the same",
                             row->to);
        cJSON_DeleteItemFromObjectCaseSensitive(body, row->to); /* a null */
        cJSON *item = cJSON_DetachItemFromObjectCaseSensitive(body, row->from);
        if (!cJSON_AddItemToObject(body, row->to, item)) {
            cJSON_Delete(item);
            return err_set(e, ERR_NOMEM, "no memory for the request");
        }
    }
    return true;
}

/* A bit for each row of renames that the body has. */
static unsigned renames_in(const cJSON *body)
{
    unsigned found = 0;
    for (size_t i = 0; i < sizeof renames / sizeof renames[0]; i++)
        found |= (unsigned)(json_member(body, renames[i].from) != NULL) << i;
    return found;
}

/* What the client calls the member that an error names. */
static void name_as_sent(unsigned found, struct err *e)
{
    for (size_t i = 0; i < sizeof renames / sizeof renames[0]; i++)
        if (found & 1u << i && !strcmp(e->field, renames[i].to))
            snprintf(e->field, sizeof e->field, "%s", renames[i].from);
}

static void drop(cJSON *body, const char *name)
{
    cJSON_DeleteItemFromObjectCaseSensitive(body, name);
}

/* A seed of -1 is a random one, a temperature below 0 is greedy, an empty grammar is none. */
static void take_special_values(cJSON *body)
{
    const cJSON *seed = json_member(body, "seed"), *grammar = json_member(body, "grammar");
    cJSON *temperature = cJSON_GetObjectItemCaseSensitive(body, "temperature");
    if (cJSON_IsNumber(seed) && (seed->valuedouble == -1 || seed->valuedouble == RANDOM_SEED))
        drop(body, "seed");
    if (cJSON_IsString(grammar) && !*grammar->valuestring)
        drop(body, "grammar");
    if (cJSON_IsNumber(temperature) && temperature->valuedouble < 0)
        cJSON_SetNumberValue(temperature, 0);
}

/* One token by its id, or all tokens of a text, with that bias. */
static bool add_bias(cJSON *map, const struct text_model *m, const char *text, const cJSON *bias,
                     struct err *e)
{
    struct ids ids = {0};
    char name[16];
    const bool forbids = cJSON_IsFalse(bias);
    if (!forbids && !cJSON_IsNumber(bias))
        return err_field(e, ERR_INPUT, "logit_bias",
                         "a bias must be a number, or false to forbid the token");
    if (strlen(text) > MAX_BIAS_TEXT)
        return err_field(e, ERR_INPUT, "logit_bias", "a text of %zu bytes is too long",
                         strlen(text));
    bool ok = tokenizer_encode(
        m->tokenizer,
        &(struct tokenizer_input){.text = text, .len = strlen(text), .mode = TOKENIZE_PLAIN}, &ids,
        e);
    for (size_t i = 0; ok && i < ids.n; i++) {
        snprintf(name, sizeof name, "%d", (int)ids.at[i]);
        ok = cJSON_AddNumberToObject(map, name, forbids ? FORBIDDEN : bias->valuedouble) != NULL ||
             err_set(e, ERR_NOMEM, "no memory for logit_bias");
    }
    ids_fini(&ids);
    return ok;
}

static bool is_id(const char *text)
{
    return *text && !text[strspn(text, "0123456789")];
}

static bool add_pair(cJSON *map, const struct text_model *m, const cJSON *pair, struct err *e)
{
    const cJSON *token = cJSON_GetArrayItem(pair, 0), *bias = cJSON_GetArrayItem(pair, 1);
    if (!cJSON_IsArray(pair) || cJSON_GetArraySize(pair) != 2 ||
        !(cJSON_IsNumber(token) || cJSON_IsString(token)))
        return err_field(e, ERR_INPUT, "logit_bias",
                         "a list holds pairs of a token id or a text, and its bias");
    if (cJSON_IsString(token))
        return add_bias(map, m, token->valuestring, bias, e);
    struct ids checked = {0};
    char name[16];
    bool ok = completions_push_id(&checked, m->vocab, token, e);
    if (!ok)
        snprintf(e->field, sizeof e->field, "logit_bias");
    snprintf(name, sizeof name, "%d", ok ? (int)checked.at[0] : 0);
    ids_fini(&checked);
    if (ok && cJSON_IsFalse(bias))
        return cJSON_AddNumberToObject(map, name, FORBIDDEN) ||
               err_set(e, ERR_NOMEM, "no memory for logit_bias");
    if (ok && !cJSON_IsNumber(bias))
        return err_field(e, ERR_INPUT, "logit_bias",
                         "a bias must be a number, or false to forbid the token");
    return ok && (cJSON_AddNumberToObject(map, name, bias->valuedouble) ||
                  err_set(e, ERR_NOMEM, "no memory for logit_bias"));
}

/* A list of pairs, or an object with texts for names, becomes OpenAI's object of ids. */
static bool flatten_bias(cJSON *body, const struct text_model *m, struct err *e)
{
    const cJSON *v = json_member(body, "logit_bias"), *item;
    bool ok = true;
    if (!cJSON_IsArray(v) && !cJSON_IsObject(v))
        return true; /* settings_read says what is wrong */
    if (cJSON_GetArraySize(v) > ENGINE_MAX_BIAS)
        return err_field(e, ERR_INPUT, "logit_bias", "has %d entries, at most %d are taken",
                         cJSON_GetArraySize(v), ENGINE_MAX_BIAS);
    cJSON *map = cJSON_CreateObject();
    cJSON_ArrayForEach (item, v) {
        if (cJSON_IsArray(v))
            ok = ok && add_pair(map, m, item, e);
        else if (is_id(item->string) && cJSON_IsNumber(item))
            ok = ok && cJSON_AddNumberToObject(map, item->string, item->valuedouble);
        else if (is_id(item->string) && cJSON_IsFalse(item))
            ok = ok && cJSON_AddNumberToObject(map, item->string, FORBIDDEN);
        else
            ok = ok && add_bias(map, m, item->string, item, e);
    }
    if (ok && map) {
        cJSON_ReplaceItemInObjectCaseSensitive(body, "logit_bias", map);
        return true;
    }
    cJSON_Delete(map);
    return e->code != ERR_NONE ? false : err_set(e, ERR_NOMEM, "no memory for logit_bias");
}

/* ---- the prompts ---- */

static bool add_part(struct ids *out, const struct text_model *m, const cJSON *part, struct err *e)
{
    if (!cJSON_IsString(part))
        return completions_push_id(out, m->vocab, part, e);
    return tokenizer_encode(m->tokenizer,
                            &(struct tokenizer_input){.text = part->valuestring,
                                                      .len = strlen(part->valuestring),
                                                      .mode = TOKENIZE_SPECIAL},
                            out, e);
}

/* A text, a list of token ids and texts that make one prompt, or {"prompt_string": text}. */
static bool add_prompt(struct completions_request *c, const struct text_model *m, const cJSON *v,
                       struct err *e)
{
    const cJSON *part;
    if (!completions_room(c, e))
        return false;
    struct ids *out = &c->prompts[c->n_prompts++];
    if (cJSON_IsObject(v)) {
        if (cJSON_GetArraySize(json_member(v, "multimodal_data")) > 0)
            return err_field(e, ERR_UNSUPPORTED, "prompt.multimodal_data",
                             "the model reads and writes text only");
        v = json_member(v, "prompt_string");
        if (!cJSON_IsString(v))
            return err_field(e, ERR_INPUT, "prompt.prompt_string", "must be a string");
    }
    if (!cJSON_IsString(v) && !cJSON_IsArray(v))
        return err_field(e, ERR_INPUT, "prompt",
                         "must be a text, a list of token ids and texts, or a list of such");
    if (cJSON_IsString(v) && !add_part(out, m, v, e))
        return false;
    if (cJSON_IsArray(v))
        cJSON_ArrayForEach (part, v)
            if (!add_part(out, m, part, e))
                return false;
    return out->n > 0 || err_field(e, ERR_INPUT, "prompt", "is empty");
}

/* A list with a number in it is one prompt, any other list is several, as llama.cpp has it. */
static bool read_prompts(struct completions_request *c, const struct text_model *m,
                         const cJSON *body, struct err *e)
{
    const cJSON *v = json_member(body, "prompt"), *item;
    bool several = cJSON_IsArray(v);
    if (!v)
        return err_field(e, ERR_INPUT, "prompt", "is needed");
    cJSON_ArrayForEach (item, v)
        several = several && !cJSON_IsNumber(item);
    if (!several)
        return add_prompt(c, m, v, e);
    cJSON_ArrayForEach (item, v)
        if (!add_prompt(c, m, item, e))
            return false;
    return c->n_prompts > 0 || err_field(e, ERR_INPUT, "prompt", "is empty");
}

/* ---- the rest ---- */

static bool read_counts(struct completions_request *c, const cJSON *body, struct err *e)
{
    int64_t n = 1, probabilities = 0;
    if (!json_get_int(body, "n", 1, INFERENCE_MAX_CHOICES, &n, e) ||
        !json_get_int(body, "n_probs", 0, ENGINE_MAX_TOP_LOGPROBS, &probabilities, e))
        return false;
    c->n = (int)n;
    c->logprobs = probabilities ? (int)probabilities : -1;
    return true;
}

static bool read_answer_form(struct llamacpp_request *q, const cJSON *body, struct err *e)
{
    const cJSON *item;
    if (!json_get_bool(body, "stream", &q->text.streaming.stream, e) ||
        !json_get_bool(body, "return_tokens", &q->return_tokens, e) ||
        !json_get_bool(body, "return_progress", &q->progress, e) ||
        !json_get_array(body, "response_fields", &q->fields, e) ||
        !json_get_string(body, "grammar", &q->grammar, e))
        return false;
    if (q->progress && !q->text.streaming.stream)
        return err_field(e, ERR_INPUT, "return_progress", "only goes with stream: true");
    if (cJSON_GetArraySize(q->fields) > LLAMACPP_MAX_FIELDS)
        return err_field(e, ERR_INPUT, "response_fields", "at most %d are taken",
                         LLAMACPP_MAX_FIELDS);
    cJSON_ArrayForEach (item, q->fields)
        if (!cJSON_IsString(item))
            return err_field(e, ERR_INPUT, "response_fields", "must be a list of strings");
    return true;
}

static bool read_body(struct llamacpp_request *q, struct request *r, cJSON *body, struct err *e)
{
    struct completions_request *c = &q->text;
    const struct text_model *m = r->worker->text;
    settings_begin(&c->settings, r);
    c->settings.least_tokens = 0;
    take_special_values(body);
    return rename_members(body, e) && flatten_bias(body, m, e) && read_answer_form(q, body, e) &&
           settings_read(&c->settings, body, m, r->arena, e) && read_counts(c, body, e) &&
           json_get_string(body, "cache_salt", &c->salt, e) && completions_read_form(c, r, body, e);
}

static bool check_choices(const struct completions_request *c, struct err *e)
{
    return c->n_prompts * c->n <= INFERENCE_MAX_CHOICES ||
           err_field(e, ERR_INPUT, "n", "prompts times n is %d, at most %d", c->n_prompts * c->n,
                     INFERENCE_MAX_CHOICES);
}

static bool read_all(struct llamacpp_request *q, struct request *r, const struct field_row *rows,
                     bool infill, struct err *e)
{
    *q = (struct llamacpp_request){
        .grammar = "", .text = {.n = 1, .logprobs = -1, .prompt_logprobs = -1, .salt = ""}};
    cJSON *body = field_body(r, e);
    if (!body || !fields_take(r, body, rows, e) || !field_model(r, body, e))
        return false;
    const unsigned renamed = renames_in(body);
    bool ok = read_body(q, r, body, e);
    if (ok && infill) {
        q->text.n_prompts = 1;
        ok = llamacpp_infill_prompt(r, body, &q->text.prompts[0], e);
    } else if (ok) {
        ok = read_prompts(&q->text, r->worker->text, body, e);
    }
    ok = ok && check_choices(&q->text, e);
    if (!ok)
        name_as_sent(renamed, e);
    return ok;
}

bool llamacpp_read(struct llamacpp_request *q, struct request *r, struct err *e)
{
    return read_all(q, r, fields, false, e);
}

bool llamacpp_read_infill(struct llamacpp_request *q, struct request *r, struct err *e)
{
    return read_all(q, r, infill_fields, true, e);
}

void llamacpp_request_fini(struct llamacpp_request *q)
{
    completions_request_fini(&q->text);
}
