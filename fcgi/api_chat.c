/* POST /v1/chat/completions, streamed and whole. */
#define LOG_MODULE "chat"
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/log.h"
#include "fcgi/chat_reply.h"
#include "fcgi/chat_request.h"
#include "fcgi/prompt.h"
#include "fcgi/reply.h"
#include "fcgi/request.h"
#include "fcgi/usage.h"
#include "fcgi/worker.h"

static void fill_job(struct engine_job_params *job, const struct request *r, const struct chat_request *c,
                     const struct prompt *prompt)
{
    *job = (struct engine_job_params){.prompt = prompt->ids.at, .n_prompt = (int32_t)prompt->ids.n,
                                      .top_logprobs = c->top_logprobs, .ignore_eos = c->ignore_eos,
                                      .special_text = prompt_wants_special_text(prompt),
                                      .user = (uint64_t)r->who.user_id};
    settings_apply(&c->settings, job);
    scope_name(job->scope, sizeof job->scope, r, c->salt);
    snprintf(job->request_id, sizeof job->request_id, "%s", r->id);
}

static bool make_prompt(struct request *r, const struct chat_request *c, struct prompt *prompt, struct err *e)
{
    struct prompt_input in = {.messages = c->messages, .tools = c->tools, .kwargs = c->kwargs};
    if (!prompt_make(r->worker->text, &in, prompt, e))
        return false;
    if (prompt->ids.n == 0 || prompt->ids.n > INT32_MAX)
        return err_field(e, ERR_INPUT, "messages", "make a prompt of %zu tokens", prompt->ids.n);
    return true;
}

/* Without a listener for pauses nothing is written until the end; the client's leaving is still seen. */
static bool answer_whole(struct request *r, const struct chat_request *c, const struct inference_params *p,
                         struct err *e)
{
    struct inference x = {0};
    struct chat_whole whole = {.r = r, .c = c};
    struct inference_params mine = *p;
    mine.listener = chat_whole_listener(&whole);
    bool ok = inference_start(&x, r, &mine, e) && inference_run(&x, e);
    if (ok) {
        chat_whole_reply(&whole, &x);
        usage_note(r, &x);
    }
    chat_whole_fini(&whole);
    inference_end(&x);
    return ok;
}

static bool answer_stream(struct request *r, const struct chat_request *c, const struct inference_params *p,
                          struct err *e)
{
    struct inference x = {0};
    struct chat_stream s;
    struct inference_params mine = *p;
    mine.listener = chat_stream_listener(&s, r, c, &x);
    bool ok = inference_start(&x, r, &mine, e);
    if (ok) { /* from here on errors travel inside the stream */
        chat_stream_begin(&s);
        struct err broken = {0};
        bool whole = inference_run(&x, &broken);
        chat_stream_end(&s, whole ? NULL : &broken);
        if (!whole && !r->client_gone)
            log_warn("id=%s stream ended with %s: %s", r->id, err_code_name(broken.code), broken.text);
        usage_note(r, &x);
    }
    chat_stream_fini(&s);
    inference_end(&x);
    return ok;
}

static bool complete_chat(struct request *r, struct err *e)
{
    struct chat_request c;
    struct prompt prompt = {0};
    bool ok = chat_request_read(&c, r, e) && make_prompt(r, &c, &prompt, e);
    if (ok) {
        struct inference_params p = {.n = c.n, .one_call = c.one_call};
        fill_job(&p.job, r, &c, &prompt);
        p.generation = (struct generation_params){.format = prompt.format, .opens_reasoning = prompt.opens_reasoning,
                                                  .tools = c.tools};
        ok = c.stream ? answer_stream(r, &c, &p, e) : answer_whole(r, &c, &p, e);
    }
    if (!ok && e->code == ERR_LIMIT && (!e->field[0] || !strcmp(e->field, "prompt")))
        snprintf(e->field, sizeof e->field, "messages");
    prompt_fini(&prompt);
    chat_request_fini(&c);
    return ok;
}

const struct route api_chat_routes[] = {
    {HTTP_POST, "/v1/chat/completions", ROUTE_USER, POOL_STREAM, ROUTE_CHAT_BODY, complete_chat},
    {0},
};
