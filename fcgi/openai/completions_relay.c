/* completions.h: a text for a model that another server answers. It goes on as it is; what needs
 * this server's own tokens or grammars is refused by name. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/chat/chat_parser.h"
#include "fcgi/http/relay_error.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/chat_relay.h"
#include "fcgi/openai/completions.h"
#include "sql/models/store_models.h"

/* As many as are asked for anyway. */
static bool asks_for_no_more(const char *name, const cJSON *v, int64_t n)
{
    return !strcmp(name, "best_of") && cJSON_IsNumber(v) && v->valuedouble == (double)n;
}

static bool refuse_own(const cJSON *body, int64_t n, struct err *e)
{
    static const struct field_row names[] = {{"logprobs", FIELD_READ},
                                             {"prompt_logprobs", FIELD_READ},
                                             {"echo", FIELD_READ},
                                             {"best_of", FIELD_READ},
                                             {"response_format", FIELD_READ},
                                             FIELD_ROWS_OF_FORMS,
                                             {0}};
    for (int i = 0; names[i].name; i++) {
        const cJSON *v = json_member(body, names[i].name);
        if (v && !cJSON_IsFalse(v) && !cJSON_IsNull(v) && !asks_for_no_more(names[i].name, v, n))
            return err_field(e, ERR_UNSUPPORTED, names[i].name,
                             "this model is answered by another server, which is not asked for "
                             "this");
    }
    return true;
}

/* One text, alone or as a list of one. */
static const char *read_prompt(const cJSON *body, struct err *e)
{
    const cJSON *v = json_member(body, "prompt");
    if (cJSON_IsArray(v) && v->child && !v->child->next)
        v = v->child;
    if (cJSON_IsString(v) && *v->valuestring)
        return v->valuestring;
    err_field(e, ERR_UNSUPPORTED, "prompt",
              "must be one text: this model is answered by another server");
    return NULL;
}

bool completions_relay_read(struct completions_request *c, struct request *r, const cJSON *body,
                            struct err *e)
{
    const char *prompt = read_prompt(body, e);
    int64_t n = 1;
    if (!prompt || !json_get_int(body, "n", 1, INFERENCE_MAX_CHOICES, &n, e) ||
        !refuse_own(body, n, e) || !json_get_string(body, "cache_salt", &c->salt, e))
        return false;
    if (strcmp(r->model->kind, "chat") != 0)
        return err_field(e, ERR_UNSUPPORTED, "model", "'%.100s' writes no texts", r->model->name);
    c->n = (int)n;
    c->n_prompts = 1;
    c->logprobs = c->prompt_logprobs = -1;
    const struct chat_request settings = {.settings = c->settings, .given = body, .n = c->n};
    buf_puts(&c->relay, "{\"prompt\":");
    buf_json_string(&c->relay, prompt, strlen(prompt));
    if (!chat_relay_put_settings(&c->relay, &settings, e))
        return false;
    c->most_tokens = chat_relay_most(&settings);
    c->affinity = chat_relay_affinity_of(r, prompt);
    return (buf_putc(&c->relay, '}') && !c->relay.failed) ||
           err_set(e, ERR_NOMEM, "no memory for the upstream's request");
}

bool completions_relay_params(struct inference_params *p, const struct completions_request *c,
                              struct request *r, struct err *e)
{
    *p = (struct inference_params){.per_prompt = c->n, .n = c->n};
    p->job.n_prompt = (int32_t)chat_relay_tokens(&c->relay);
    p->generation = (struct generation_params){.format = CHAT_RELAYED_FORMAT};
    p->relay = (struct engine_relay){.model = r->model->id,
                                     .request = c->relay.data,
                                     .n_request = c->relay.len,
                                     .text = true,
                                     .most_tokens = c->most_tokens > 0 ? c->most_tokens : 0,
                                     .user = (uint64_t)r->who.user_id,
                                     .affinity = c->affinity};
    return chat_relay_origin(&p->relay, r, e);
}
