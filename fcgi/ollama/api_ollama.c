/* POST /api/chat and /api/generate, in Ollama's form. */
#include <stdio.h>

#include "fcgi/http/request.h"
#include "fcgi/inference/cache_scope.h"
#include "fcgi/inference/inference.h"
#include "fcgi/inference/local/local_gate.h"
#include "fcgi/ollama/ollama.h"
#include "fcgi/process/worker.h"
#include "fcgi/status/engine_status.h"

/* The job of a prompt that no template renders: like a completion's. */
static bool make_raw_job(struct inference_params *p, struct ollama_request *o, struct request *r,
                         struct err *e)
{
    struct chat_request *c = &o->chat;
    struct engine_job_params *job = &p->job;
    if (!o->ids.n || o->ids.n > INT32_MAX)
        return err_field(e, ERR_INPUT, "prompt", "makes a prompt of %zu tokens", o->ids.n);
    if (!constraint_compile(&c->constraint, &(struct constraint_place){.model = r->worker->text},
                            &c->grammar, e))
        return false;
    *p = (struct inference_params){.n = 1, .source = "prompt"};
    *job = (struct engine_job_params){.prompt = o->ids.at,
                                      .n_prompt = (int32_t)o->ids.n,
                                      .top_logprobs = c->top_logprobs,
                                      .user = (uint64_t)r->who.user_id,
                                      .grammar = c->grammar.data,
                                      .n_grammar = (uint32_t)c->grammar.len};
    settings_apply(&c->settings, job);
    cache_scope_name(job->scope, sizeof job->scope, r, "");
    snprintf(job->request_id, sizeof job->request_id, "%s", r->id);
    return true;
}

static bool run(struct request *r, struct ollama_request *o, struct err *e)
{
    struct prompt prompt = {0};
    struct inference_params p;
    struct inference x = {0};
    struct ollama_view view;
    bool ok = o->raw ? make_raw_job(&p, o, r, e) : chat_job_make(&p, &prompt, r, &o->chat, e);
    if (ok) {
        struct answer_view v = ollama_view(&view, r, o, &x);
        ok = answer_view_run(&x, r, &p, &v, e);
        ollama_view_fini(&view);
        inference_end(&x);
    } else {
        ollama_rename(o, e);
    }
    prompt_fini(&prompt);
    return ok;
}

/* Without a message Ollama's clients ask to load the model, or with keep_alive 0 to unload it. It
 * is loaded when the engine is ready; a request never unloads it, which the answer says by its
 * reason and by naming keep_alive. */
static bool say_loaded(struct request *r, const struct ollama_request *o, struct err *e)
{
    struct status_page page;
    if (!local_gate_load(r, e))
        return false;
    if (!r->model && !engine_status_read(r, &page))
        return err_set(e, ERR_UNAVAILABLE, "the model is not loaded (%s)",
                       engine_state_name(page.state));
    return ollama_say_loaded(r, o);
}

static bool answer(struct request *r,
                   bool (*read)(struct ollama_request *, struct request *, struct err *),
                   struct err *e)
{
    struct ollama_request o;
    bool ok = read(&o, r, e) && (o.nothing ? say_loaded(r, &o, e) : run(r, &o, e));
    ollama_request_fini(&o);
    return ok;
}

static bool chat(struct request *r, struct err *e)
{
    return answer(r, ollama_read_chat, e);
}

static bool generate(struct request *r, struct err *e)
{
    return answer(r, ollama_read_generate, e);
}

const struct route api_ollama_routes[] = {
    {.method = HTTP_POST,
     .path = "/api/chat",
     .auth = ROUTE_USER,
     .pool = POOL_STREAM,
     .body_limit = ROUTE_CHAT_BODY,
     .handler = chat,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Answer a chat, in Ollama's form",
             .body = "OllamaChatRequest",
             .reply = "OllamaChatReply",
             .media = SSE_LINES_TYPE,
             OLLAMA_FORM,
             .statuses = "200"},
     .dialect = &ollama_dialect},
    {.method = HTTP_POST,
     .path = "/api/generate",
     .auth = ROUTE_USER,
     .pool = POOL_STREAM,
     .body_limit = ROUTE_CHAT_BODY,
     .handler = generate,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Answer a prompt, in Ollama's form",
             .body = "OllamaGenerateRequest",
             .reply = "OllamaGenerateReply",
             .media = SSE_LINES_TYPE,
             OLLAMA_FORM,
             .statuses = "200"},
     .dialect = &ollama_dialect},
    {0},
};
