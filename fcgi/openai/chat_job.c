/* chat_job.h: a checked request becomes a prompt and the parameters of a job, which then runs. */
#define LOG_MODULE "chat"
#include "fcgi/openai/chat_job.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/log.h"
#include "fcgi/http/request.h"
#include "fcgi/process/worker.h"

static void fill_job(struct engine_job_params *job, const struct request *r, const struct chat_request *c,
                     const struct prompt *prompt)
{
    *job = (struct engine_job_params){.prompt = prompt->ids.at, .n_prompt = (int32_t)prompt->ids.n,
                                      .top_logprobs = c->top_logprobs, .prompt_scores = c->prompt_logprobs + 1,
                                      .special_text = prompt_wants_special_text(prompt),
                                      .grammar = c->grammar.data, .n_grammar = (uint32_t)c->grammar.len,
                                      .user = (uint64_t)r->who.user_id};
    prompt_tell_answer(prompt, job);
    settings_apply(&c->settings, job);
    scope_name(job->scope, sizeof job->scope, r, c->salt);
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

bool chat_job_make(struct inference_params *p, struct prompt *prompt, struct request *r, struct chat_request *c,
                   struct err *e)
{
    struct prompt_input in = {.messages = c->messages, .tools = c->tools, .kwargs = c->kwargs,
                              .generic_tools = prompt_generic_tools(r)};
    if (!prompt_make(r->worker->text, &in, prompt, e))
        return name_source(c, e);
    if (prompt->ids.n == 0 || prompt->ids.n > INT32_MAX)
        return err_field(e, ERR_INPUT, c->source, "makes a prompt of %zu tokens", prompt->ids.n);
    if (!constraint_compile(&c->constraint,
                            &(struct constraint_place){.model = r->worker->text, .prompt = prompt, .tools = c->tools,
                                                       .one_call = c->one_call},
                            &c->grammar, e))
        return false;
    *p = (struct inference_params){.n = c->n, .one_call = c->one_call, .source = c->source};
    fill_job(&p->job, r, c, prompt);
    p->generation = (struct generation_params){.format = prompt->format, .opens_reasoning = prompt->opens_reasoning,
                                               .tools = c->tools,
                                               .stream_calls = c->grammar.len > 0};
    return true;
}

/* Without a listener for pauses nothing is written until the end; the client's leaving is still seen. */
static bool run_whole(struct inference *x, const struct chat_view *v, struct err *e)
{
    if (!inference_run(x, e))
        return false;
    v->end(v->listener.context, NULL);
    return true;
}

static void run_stream(struct inference *x, const struct chat_view *v)
{
    struct request *r = x->r;
    struct err broken = {0};
    v->begin(v->listener.context);
    bool whole = inference_run(x, &broken);
    v->end(v->listener.context, whole ? NULL : &broken);
    if (!whole && !r->client_gone)
        log_warn("id=%s stream ended with %s: %s", r->id, err_code_name(broken.code), broken.text);
}

bool chat_job_run(struct inference *x, struct request *r, const struct inference_params *p, const struct chat_view *v,
                  struct err *e)
{
    struct inference_params mine = *p;
    mine.listener = v->listener;
    if (!inference_start(x, r, &mine, e)) {
        if (e->code == ERR_LIMIT && (!e->field[0] || !strcmp(e->field, "prompt")) && p->source)
            snprintf(e->field, sizeof e->field, "%s", p->source);
        return false;
    }
    if (v->begin)
        run_stream(x, v);
    else if (!run_whole(x, v, e))
        return false;
    return true;
}
