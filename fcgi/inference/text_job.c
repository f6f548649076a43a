/* text_job.h: what a request asks for, checked and sent, and its values as they come. */
#include "fcgi/inference/text_job.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/wire/status.h"
#include "fcgi/auth/limits.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/model_gate.h"
#include "fcgi/inference/model_name.h"
#include "fcgi/inference/usage.h"
#include "fcgi/inference/watch.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/worker.h"

#define RETRY_S 3
#define LOOK_EVERY 16 /* texts, after which a client may have gone */

static const char *const wants[] = {
    [ENGINE_TASK_EMBED] = "makes embeddings", [ENGINE_TASK_SCORE] = "scores documents"};
static const char *const options[] = {
    [ENGINE_TASK_EMBED] = "--embedding-model", [ENGINE_TASK_SCORE] = "--rerank-model"};

/* "NAME" or "NAME:latest", as Ollama's clients say. */
static bool is_named(const struct side_model *m, const char *name)
{
    const size_t n = strlen(m->id);
    return !strncmp(name, m->id, n) && (!name[n] || !strcmp(name + n, ":latest"));
}

static bool refuse(struct request *r, enum engine_task task, const char *name, struct err *e)
{
    const struct side_model *m = side_model_of(r->worker, task);
    const enum engine_task other =
        task == ENGINE_TASK_EMBED ? ENGINE_TASK_SCORE : ENGINE_TASK_EMBED;
    const struct side_model *o = side_model_of(r->worker, other);
    if (name && o && is_named(o, name))
        return err_field(e, ERR_INPUT, "model", "'%.100s' %s and does nothing else", name,
                         wants[other]);
    if (name && model_name_is_own(r, name))
        return err_field(e, ERR_INPUT, "model",
                         "'%.100s' is trained to continue text; it is no model that %s", name,
                         wants[task]);
    r->error_override.code = "model_not_found";
    if (!m)
        return err_field(e, ERR_NOTFOUND, "model",
                         "there is no model here that %s; an operator names one with %s",
                         wants[task], options[task]);
    return err_field(e, ERR_NOTFOUND, "model", "'%.100s' is not here; what %s is '%s'", name,
                     wants[task], m->id);
}

bool text_job_begin(struct text_job *j, struct request *r, enum engine_task task, const char *name,
                    struct err *e)
{
    const struct side_model *m = side_model_of(r->worker, task);
    struct status_page page = {0};
    *j = (struct text_job){.r = r, .model = m, .own = j->own};
    if (!m || (name && !is_named(m, name) &&
               (model_name_is_own(r, name) || !model_name_is_served(r, name))))
        return refuse(r, task, name, e);
    if (!status_read(m->status_path, &page, e) || page.state != ENGINE_READY) {
        r->error_override.retry_after_s = RETRY_S;
        err_set(e, ERR_UNAVAILABLE, "the engine that %s is not ready: %s", wants[task],
                page.error[0] ? page.error : "it has not started");
        return err_reason(e, page.state == ENGINE_LOADING ? "model_loading" : "engine_unavailable");
    }
    j->n_ctx = page.n_ctx;
    /* Before any work is done for the texts; their tokens are taken once they are known. */
    return j->own || limits_enter(r, 0, 1, e);
}

static bool push_ids(struct ids *to, const int32_t *ids, int32_t n, struct err *e)
{
    for (int32_t i = 0; i < n; i++)
        if (!ids_push(to, ids[i]))
            return err_set(e, ERR_NOMEM, "no memory for texts");
    return true;
}

static bool encode(const struct text_job *j, const char *text, struct ids *out, struct err *e)
{
    return tokenizer_encode(
        j->model->text.tokenizer,
        &(struct tokenizer_input){.text = text, .len = strlen(text), .mode = TOKENIZE_PLAIN}, out,
        e);
}

/* What was pushed since `from` is a text. first: tokens of its first part, or 0. */
static bool end_text(struct text_job *j, size_t from, size_t first, struct err *e)
{
    const size_t n = j->ids.n - from;
    if (!n)
        return err_set(e, ERR_INPUT, "is empty");
    if (n > (size_t)j->n_ctx) {
        j->r->error_override.code = "context_length_exceeded";
        return err_set(e, ERR_LIMIT, "has %zu tokens, the model takes %d", n, (int)j->n_ctx);
    }
    if (j->n_texts == ENGINE_MAX_TEXTS)
        return err_set(e, ERR_LIMIT, "at most %d texts are taken at once", ENGINE_MAX_TEXTS);
    if (j->ids.n > ENGINE_MAX_PROMPT)
        return err_set(e, ERR_LIMIT,
                       "is one too many: the texts of a request have at most %d tokens "
                       "together",
                       ENGINE_MAX_PROMPT);
    if (j->n_texts % LOOK_EVERY == 0 && request_client_gone(j->r))
        return err_set(e, ERR_CANCELLED, "the client closed the connection");
    if (!j->ends) {
        j->ends = malloc(ENGINE_MAX_TEXTS * sizeof *j->ends);
        j->firsts = malloc(ENGINE_MAX_TEXTS * sizeof *j->firsts);
    }
    if (!j->ends || !j->firsts)
        return err_set(e, ERR_NOMEM, "no memory for texts");
    j->ends[j->n_texts] = (int32_t)j->ids.n;
    j->firsts[j->n_texts++] = (int32_t)first;
    return true;
}

/* Cuts what was pushed since `from`, so that `behind` more tokens fit. */
static void cut(struct text_job *j, size_t from, size_t behind)
{
    const size_t most = (size_t)j->n_ctx > behind ? (size_t)j->n_ctx - behind : 0;
    if (j->truncate && j->ids.n - from > most)
        j->ids.n = from + most;
}

bool text_job_add(struct text_job *j, const char *text, struct err *e)
{
    const struct vocab_around *a = vocab_around(j->model->text.vocab);
    const size_t from = j->ids.n;
    if (!push_ids(&j->ids, a->before, a->n_before, e) || !encode(j, text, &j->ids, e))
        return false;
    cut(j, from, (size_t)a->n_after);
    return push_ids(&j->ids, a->after, a->n_after, e) && end_text(j, from, 0, e);
}

bool text_job_add_ids(struct text_job *j, const int32_t *ids, int32_t n, struct err *e)
{
    const size_t from = j->ids.n;
    if (!push_ids(&j->ids, ids, n, e))
        return false;
    cut(j, from, 0);
    return end_text(j, from, 0, e);
}

/* --- a query and its documents: what stands around a document is tokenized once --- */

/* [CLS] query [SEP] document [SEP] */
static bool begin_segments(struct text_job *j, const char *query, struct err *e)
{
    const struct vocab_around *a = vocab_around(j->model->text.vocab);
    return push_ids(&j->before, a->before, a->n_before, e) && encode(j, query, &j->before, e) &&
           push_ids(&j->before, a->between, a->n_between, e) &&
           push_ids(&j->after, a->after, a->n_after, e);
}

/* A part of a prompt that is ours: its control tokens count as such. */
static bool push_words(const struct text_job *j, const char *text, struct ids *out, struct err *e)
{
    return tokenizer_encode(
        j->model->text.tokenizer,
        &(struct tokenizer_input){.text = text, .len = strlen(text), .mode = TOKENIZE_SPECIAL}, out,
        e);
}

/* What Qwen3-Reranker was trained with; its model card has the words. The space behind the last
 * colon begins the document's first word (text_job_add_document). */
static bool begin_judgement(struct text_job *j, const struct text_query *q, struct err *e)
{
    static const char before[] =
        "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query "
        "and the Instruct provided. Note that the answer can only be \"yes\" or \"no\"."
        "<|im_end|>\n<|im_start|>user\n";
    static const char after[] = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
    static const char usual[] =
        "Given a web search query, retrieve relevant passages that answer the query";
    struct buf text = {0};
    buf_printf(&text,
               "<Instruct>: %s\n<Query>: %s\n<Document>:", q->instruction ? q->instruction : usual,
               q->text);
    const bool ok = (!text.failed || err_set(e, ERR_NOMEM, "no memory for texts")) &&
                    push_words(j, before, &j->before, e) && encode(j, text.data, &j->before, e) &&
                    push_words(j, after, &j->after, e);
    buf_fini(&text);
    return ok;
}

bool text_job_begin_query(struct text_job *j, const struct text_query *q, struct err *e)
{
    const bool segments = vocab_around(j->model->text.vocab)->n_between > 0;
    if (!(segments ? begin_segments(j, q->text, e) : begin_judgement(j, q, e)))
        return false;
    const size_t n = j->before.n + j->after.n;
    if (n < (size_t)j->n_ctx)
        return true;
    j->r->error_override.code = "context_length_exceeded";
    return err_field(
        e, ERR_LIMIT, "query",
        "has %zu tokens with what the model wants around it; the model takes %d, and a "
        "document needs some of them",
        n, (int)j->n_ctx);
}

bool text_job_add_document(struct text_job *j, const char *document, struct err *e)
{
    const struct vocab_around *a = vocab_around(j->model->text.vocab);
    const size_t from = j->ids.n;
    struct buf text = {0};
    if (!a->n_between)
        buf_putc(&text, ' ');
    buf_puts(&text, document);
    const bool ok = (!text.failed || err_set(e, ERR_NOMEM, "no memory for texts")) &&
                    push_ids(&j->ids, j->before.at, (int32_t)j->before.n, e) &&
                    (!text.len || encode(j, text.data, &j->ids, e));
    buf_fini(&text);
    if (!ok)
        return false;
    cut(j, from, j->after.n);
    return push_ids(&j->ids, j->after.at, (int32_t)j->after.n, e) &&
           end_text(j, from, a->n_between && a->second_type ? j->before.n : 0, e);
}

/* --- running --- */

static bool take_vectors(struct text_job *j, const struct engine_event *ev, struct err *e)
{
    if (!j->values) {
        j->dimensions = ev->dimensions;
        j->values = calloc((size_t)j->n_texts * (size_t)ev->dimensions, sizeof *j->values);
        if (!j->values)
            return err_set(e, ERR_NOMEM, "no memory for %d vectors", (int)j->n_texts);
    }
    if (ev->dimensions != j->dimensions || ev->done < 0 || ev->n_vectors > j->n_texts - ev->done)
        return err_set(e, ERR_INTERNAL, "the engine sent vectors that nobody asked for");
    const size_t n = (size_t)ev->n_vectors * (size_t)j->dimensions;
    for (size_t i = 0; i < n; i++)
        if (!isfinite(ev->values[i])) /* JSON has no such thing, and nobody could compare it */
            return err_set(e, ERR_INTERNAL, "the model gave no number for text %d",
                           (int)ev->done + (int)(i / (size_t)j->dimensions));
    memcpy(j->values + (size_t)ev->done * (size_t)j->dimensions, ev->values, n * sizeof *j->values);
    if (ev->n_vectors > 0)
        j->tokens += j->ends[ev->done + ev->n_vectors - 1] - (ev->done ? j->ends[ev->done - 1] : 0);
    return true;
}

/* All events that are there. *over: the last one was. */
static bool drain(struct text_job *j, struct engine_job *job, bool *over, struct err *e)
{
    struct engine_event ev;
    int n;
    while (!*over && (n = engine_next(job, &ev, 0, e)) != 0) {
        if (n < 0) {
            atomic_fetch_add_explicit(&j->r->worker->shared->engine_lost, 1, memory_order_relaxed);
            return false;
        }
        if (ev.type == ENGINE_VECTORS && !take_vectors(j, &ev, e))
            return false;
        if (ev.type == ENGINE_FAILED) {
            *e = ev.error;
            return false;
        }
        if (ev.type == ENGINE_DONE) {
            *over = true;
            if (ev.finish != ENGINE_STOP_EOS)
                return err_set(e, ERR_UNAVAILABLE, "the engine ended before it had read all texts");
            j->tokens = ev.usage.prompt_tokens;
            j->queue_ms = ev.usage.queue_ms;
            j->compute_ms = ev.usage.prefill_ms;
        }
    }
    return true;
}

static bool wait_for_all(struct text_job *j, struct engine_job *job, struct err *e)
{
    bool over = false;
    while (!over) {
        int which = 0;
        const double left = j->until - clock_ms();
        if (j->until > 0 && left <= 0)
            return err_set(e, ERR_UNAVAILABLE, "the engine did not answer in time");
        switch (watch_jobs(j->r, &job, 1, j->until > 0 ? (int)left + 1 : -1, &which)) {
        case WATCH_EVENT:
            if (!drain(j, job, &over, e))
                return false;
            break;
        case WATCH_TIMEOUT:
            break;
        case WATCH_GONE:
            return err_set(e, ERR_CANCELLED, "the client closed the connection");
        case WATCH_SHUTDOWN:
            return err_set(e, ERR_UNAVAILABLE, "the server is restarting") ||
                   err_reason(e, "server_restarting");
        }
    }
    return j->values || err_set(e, ERR_INTERNAL, "the engine sent no vectors");
}

static bool submit(struct text_job *j, const struct engine_job_params *p, struct engine_job **job,
                   struct err *e)
{
    const uint64_t began = clock_ns();
    *job = engine_submit(j->model->engine_socket, p, e);
    j->r->engine_ns += clock_ns() - began;
    if (*job)
        return true;
    if (e->code == ERR_BUSY)
        model_gate_explain_busy(j->r, e);
    return false;
}

bool text_job_run(struct text_job *j, int32_t dimensions, struct err *e)
{
    struct request *r = j->r;
    struct engine_job *job = NULL;
    struct engine_job_params p = {.prompt = j->ids.at,
                                  .n_prompt = (int32_t)j->ids.n,
                                  .sampling = {.top_p = 1, .repetition_penalty = 1},
                                  .top_logprobs = -1,
                                  .user = (uint64_t)r->who.user_id,
                                  .cache_keep_seconds = -1,
                                  .task = j->model->task,
                                  .text_ends = j->ends,
                                  .text_firsts = j->firsts,
                                  .n_texts = j->n_texts,
                                  .dimensions = dimensions};
    snprintf(p.request_id, sizeof p.request_id, "%s", r->id);
    if (!j->own && !limits_take(r, p.n_prompt, e))
        return false;
    const bool started = submit(j, &p, &job, e);
    if (started)
        r->job = engine_job_id(job);
    const bool ok = started && wait_for_all(j, job, e);
    engine_close(&job);
    if (j->own)
        return ok;
    limits_spend(r, j->tokens - p.n_prompt); /* what was not read is given back */
    if (started)
        usage_note_texts(r, j->tokens);
    limits_leave(r);
    return ok;
}

void text_job_fini(struct text_job *j)
{
    if (j->r && !j->own)
        limits_leave(j->r);
    ids_fini(&j->ids);
    ids_fini(&j->before);
    ids_fini(&j->after);
    free(j->ends);
    free(j->firsts);
    free(j->values);
    *j = (struct text_job){0};
}
