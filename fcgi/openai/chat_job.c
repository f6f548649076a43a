/* chat_job.h: a checked request becomes a prompt and the parameters of a job. */
#include "fcgi/openai/chat_job.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "fcgi/http/request.h"
#include "fcgi/inference/cache_scope.h"
#include "fcgi/inference/stored_prompt.h"
#include "fcgi/openai/chat_relay.h"
#include "fcgi/process/worker.h"

static void fill_job(struct engine_job_params *job, const struct request *r,
                     const struct chat_request *c, const struct prompt *prompt)
{
    *job = (struct engine_job_params){.prompt = prompt->ids.at,
                                      .n_prompt = (int32_t)prompt->ids.n,
                                      .top_logprobs = c->top_logprobs,
                                      .prompt_scores = c->prompt_logprobs + 1,
                                      .special_text = prompt_wants_special_text(prompt),
                                      .grammar = c->grammar.data,
                                      .n_grammar = (uint32_t)c->grammar.len,
                                      .prediction = c->prediction,
                                      .n_prediction = c->n_prediction,
                                      .user = (uint64_t)r->who.user_id};
    prompt_tell_answer(prompt, job);
    settings_apply(&c->settings, job);
    cache_scope_name(job->scope, sizeof job->scope, r, c->salt);
    job->cache_keep_seconds = c->keep_seconds;
    if (c->cache_key && *c->cache_key)
        stored_prompt_label(job->cache_owner, c->cache_key);
    snprintf(job->request_id, sizeof job->request_id, "%s", r->id);
}

/* The template and the engine name the conversation in their own ways. */
static bool name_source(const struct chat_request *c, struct err *e)
{
    bool conversation = !strcmp(e->field, "messages") || !strcmp(e->field, "prompt");
    if (conversation || (e->code == ERR_LIMIT && !e->field[0]))
        snprintf(e->field, sizeof e->field, "%s", c->source);
    return false;
}

bool chat_job_counts(const struct request *r, struct err *e)
{
    return !r->model || err_field(e, ERR_UNSUPPORTED, "model",
                                  "another server answers for this model: its tokens can't be "
                                  "counted here");
}

bool chat_job_make(struct inference_params *p, struct prompt *prompt, struct request *r,
                   struct chat_request *c, struct err *e)
{
    struct prompt_input in = {.messages = c->messages,
                              .tools = c->tools,
                              .kwargs = c->kwargs,
                              .generic_tools = prompt_generic_tools(r)};
    if (r->model)
        return chat_relay_make(p, r, c, e);
    if (!prompt_make(r->worker->text, &in, prompt, e))
        return name_source(c, e);
    if (prompt->ids.n == 0 || prompt->ids.n > INT32_MAX)
        return err_field(e, ERR_INPUT, c->source, "makes a prompt of %zu tokens", prompt->ids.n);
    if (!constraint_compile(&c->constraint,
                            &(struct constraint_place){.model = r->worker->text,
                                                       .prompt = prompt,
                                                       .tools = c->tools,
                                                       .one_call = c->one_call},
                            &c->grammar, e))
        return false;
    *p = (struct inference_params){.n = c->n, .one_call = c->one_call, .source = c->source};
    fill_job(&p->job, r, c, prompt);
    p->generation = (struct generation_params){.format = prompt->format,
                                               .opens_reasoning = prompt->opens_reasoning,
                                               .tools = c->tools,
                                               .stream_calls = c->grammar.len > 0};
    return true;
}
