/* completions.h: reads the request: prompts as text or token ids, and what is asked of the answer.
 */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/tokenizer/detokenizer.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/cache_scope.h"
#include "fcgi/inference/local/local_defaults.h"
#include "fcgi/inference/model_name.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/openai/completions.h"
#include "fcgi/process/worker.h"

#define DEFAULT_MAX_TOKENS 16 /* OpenAI's, and vLLM's, for this endpoint */
#define MAX_LOGPROBS 5

static const struct field_row fields[] = {
    {"prompt", FIELD_READ},
    {"model", FIELD_READ},
    {"stream", FIELD_READ},
    {"stream_options", FIELD_READ},
    FIELD_ROWS_OF_SAMPLING,
    FIELD_ROWS_OF_LENGTH,
    {"stop", FIELD_READ},
    {"max_tokens", FIELD_READ},
    {"max_completion_tokens", FIELD_READ},
    {"logprobs", FIELD_READ},
    {"echo", FIELD_READ},
    {"prompt_logprobs", FIELD_READ}, /* vLLM's */
    {"n", FIELD_READ},
    {"best_of", FIELD_READ},
    {"cache_salt", FIELD_READ},
    {"user", FIELD_INERT},
    FIELD_ROWS_OF_FORMS,
    {"response_format", FIELD_READ},
    {NULL, FIELD_READ},
};

bool completions_room(const struct completions_request *c, struct err *e)
{
    return c->n_prompts < INFERENCE_MAX_CHOICES ||
           err_field(e, ERR_INPUT, "prompt", "at most %d prompts are taken", INFERENCE_MAX_CHOICES);
}

static bool add_text(struct completions_request *c, const struct text_model *m, const char *text,
                     struct err *e)
{
    if (!completions_room(c, e))
        return false;
    int i = c->n_prompts++;
    if (!tokenizer_encode(
            m->tokenizer,
            &(struct tokenizer_input){.text = text, .len = strlen(text), .mode = TOKENIZE_SPECIAL},
            &c->prompts[i], e))
        return false;
    if (!c->prompts[i].n)
        return err_field(e, ERR_INPUT, "prompt", "is empty");
    return !c->echo || buf_puts(&c->echoes[i], text) ||
           err_set(e, ERR_NOMEM, "no memory for the echo");
}

bool completions_push_id(struct ids *out, const struct vocab *v, const cJSON *item, struct err *e)
{
    if (!cJSON_IsNumber(item) || item->valuedouble != item->valueint || item->valueint < 0 ||
        item->valueint >= vocab_size(v))
        return err_field(e, ERR_INPUT, "prompt",
                         "holds something that is not a token id from 0 to %d",
                         (int)vocab_size(v) - 1);
    return ids_push(out, item->valueint) || err_set(e, ERR_NOMEM, "no memory for the prompt");
}

static bool add_ids(struct completions_request *c, const struct text_model *m, const cJSON *list,
                    struct err *e)
{
    const cJSON *item;
    struct detokenizer d;
    if (!completions_room(c, e))
        return false;
    int i = c->n_prompts++;
    detokenizer_init(&d, m->vocab, true);
    cJSON_ArrayForEach (item, list) {
        if (!completions_push_id(&c->prompts[i], m->vocab, item, e))
            return false;
        if (c->echo && !detokenizer_push(&d, item->valueint, &c->echoes[i]))
            return err_set(e, ERR_NOMEM, "no memory for the prompt");
    }
    return !c->echo || detokenizer_flush(&d, &c->echoes[i]);
}

/* A string, a list of strings, a list of ids, or a list of lists of ids. */
static bool read_prompts(struct completions_request *c, const struct text_model *m,
                         const cJSON *body, struct err *e)
{
    const cJSON *v = json_member(body, "prompt"), *item;
    if (cJSON_IsString(v))
        return add_text(c, m, v->valuestring, e);
    if (!cJSON_IsArray(v) || !v->child)
        return err_field(e, ERR_INPUT, "prompt", "must be text, a list of texts, or token ids");
    if (cJSON_IsNumber(v->child))
        return add_ids(c, m, v, e);
    cJSON_ArrayForEach (item, v) {
        if (cJSON_IsString(item) ? !add_text(c, m, item->valuestring, e)
            : cJSON_IsArray(item) && item->child
                ? !add_ids(c, m, item, e)
                : !err_field(e, ERR_INPUT, "prompt", "a list holds texts, or lists of token ids"))
            return false;
    }
    return true;
}

/* Scoring a prompt: echo with logprobs as OpenAI had it, prompt_logprobs as vLLM has it. */
static bool check_scores(struct completions_request *c, struct err *e)
{
    const bool echoed = c->echo && c->logprobs >= 0;
    if (c->settings.max_tokens == 0 && !c->echo && c->prompt_logprobs < 0)
        return err_field(e, ERR_INPUT, "max_tokens",
                         "is 0, which only goes with echo or prompt_logprobs");
    if (c->prompt_logprobs >= 0 && c->streaming.stream)
        return err_field(e, ERR_INPUT, "prompt_logprobs", "does not go with stream: true");
    c->scores = c->prompt_logprobs + 1;
    if (echoed && c->logprobs + 1 > c->scores)
        c->scores = c->logprobs + 1;
    /* The one token behind an echoed prompt only holds a place for clients that score the prompt:
     * it is given even where it ends the text. */
    c->settings.ignore_eos |= echoed && c->settings.max_tokens == 1;
    return true;
}

static bool read_counts(struct completions_request *c, struct request *r, const cJSON *body,
                        struct err *e)
{
    int64_t n = 1, best_of = 0, logprobs = -1, prompt_logprobs = -1;
    if (!json_get_int(body, "n", 1, INFERENCE_MAX_CHOICES, &n, e) ||
        !json_get_int(body, "best_of", 1, INFERENCE_MAX_CHOICES, &best_of, e) ||
        !json_get_int(body, "prompt_logprobs", 0, ENGINE_MAX_TOP_LOGPROBS, &prompt_logprobs, e) ||
        (!cJSON_IsFalse(json_member(body, "logprobs")) && /* chat's word for none */
         !json_get_int(body, "logprobs", 0, MAX_LOGPROBS, &logprobs, e)))
        return false;
    if (best_of && best_of != n && !ignored_add(r, "best_of", fields_foreign_reason("best_of"), e))
        return false;
    if (c->n_prompts * n > INFERENCE_MAX_CHOICES)
        return err_field(e, ERR_INPUT, "n", "prompts times n is %lld, at most %d",
                         (long long)(c->n_prompts * n), INFERENCE_MAX_CHOICES);
    c->n = (int)n;
    c->logprobs = (int)logprobs;
    c->prompt_logprobs = (int)prompt_logprobs;
    return check_scores(c, e);
}

bool completions_read_form(struct completions_request *c, struct request *r, const cJSON *body,
                           struct err *e)
{
    struct constraint form = {0};
    bool ok = constraint_read_format(&form, r, body, e) &&
              constraint_compile(&form, &(struct constraint_place){.model = r->worker->text},
                                 &c->grammar, e);
    constraint_fini(&form);
    return ok;
}

bool completions_read(struct completions_request *c, struct request *r, struct err *e)
{
    *c = (struct completions_request){.n = 1, .salt = ""};
    cJSON *body = field_body(r, e);
    const char *model = NULL;
    if (!body || !fields_take(r, body, fields, e) || !json_get_string(body, "model", &model, e) ||
        (model && !model_name_take(r, model, e)))
        return false;
    const struct text_model *m = r->worker->text; /* of the model that was just named */
    settings_begin(&c->settings, r);
    if (!local_defaults_have(r, "max_tokens"))
        c->settings.max_tokens = DEFAULT_MAX_TOKENS;
    c->settings.least_tokens = 0;
    if (!field_stream(r, body, &c->streaming, e) ||
        !settings_read(&c->settings, body, r->model ? NULL : m, r->arena, e))
        return false;
    if (r->model)
        return completions_relay_read(c, r, body, e);
    return json_get_bool(body, "echo", &c->echo, e) &&
           json_get_string(body, "cache_salt", &c->salt, e) &&
           completions_read_form(c, r, body, e) && read_prompts(c, m, body, e) &&
           read_counts(c, r, body, e);
}

struct inference_params completions_params(const struct completions_request *c,
                                           const struct request *r)
{
    struct inference_params p = {
        .prompts = c->prompts, .per_prompt = c->n, .n = c->n_prompts * c->n};
    struct engine_job_params *job = &p.job;
    *job = (struct engine_job_params){.prompt_scores = c->scores,
                                      .top_logprobs = c->logprobs,
                                      .user = (uint64_t)r->who.user_id,
                                      .grammar = c->grammar.data,
                                      .n_grammar = (uint32_t)c->grammar.len};
    settings_apply(&c->settings, job);
    cache_scope_name(job->scope, sizeof job->scope, r, c->salt);
    snprintf(job->request_id, sizeof job->request_id, "%s", r->id);
    return p;
}

void completions_request_fini(struct completions_request *c)
{
    buf_fini(&c->relay);
    buf_fini(&c->grammar);
    for (int i = 0; i < INFERENCE_MAX_CHOICES; i++) {
        ids_fini(&c->prompts[i]);
        buf_fini(&c->echoes[i]);
    }
}
