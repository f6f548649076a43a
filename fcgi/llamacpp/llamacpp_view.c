/* llamacpp.h: the answer, whole or streamed. One object for each choice; a stream sends what is new
 * as it comes, and at the choice's end the object with everything but the text. No [DONE]:
 * llama.cpp sends none here. */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "engine/tokenizer/detokenizer.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/cache_usage.h"
#include "fcgi/inference/reduced_top_k.h"
#include "fcgi/inference/speculation_usage.h"
#include "fcgi/llamacpp/llamacpp.h"
#include "fcgi/openai/openai.h"
#include "fcgi/process/worker.h"
#include "fcgi/status/engine_status.h"

static const char *text_of(const struct buf *b)
{
    return b->data ? b->data : "";
}

/* ---- the settings ---- */

void llamacpp_settings(struct buf *b, const struct settings *s)
{
    const struct engine_sampling *p = &s->sampling;
    const int most = s->most_tokens && (s->max_tokens < 0 || s->max_tokens > s->most_tokens)
                         ? s->most_tokens
                         : s->max_tokens;
    buf_printf(b, "{\"n_predict\":%d,\"max_tokens\":%d,\"seed\":", most, most);
    if (s->seed_given)
        buf_printf(b, "%lld", (long long)p->seed);
    else
        buf_puts(b, "4294967295"); /* llama.cpp's word for a random one */
    buf_printf(
        b,
        ",\"temperature\":%.7g,\"top_k\":%d,\"top_p\":%.7g,\"min_p\":%.7g,\"repeat_penalty\":%.7g,"
        "\"repeat_last_n\":-1,\"presence_penalty\":%.7g,\"frequency_penalty\":%.7g,\"n_keep\":0,"
        "\"stop\":[",
        (double)p->temperature, (int)p->top_k, (double)p->top_p, (double)p->min_p,
        (double)p->repetition_penalty, (double)p->presence_penalty, (double)p->frequency_penalty);
    for (int i = 0; i < s->n_stop; i++) {
        buf_puts(b, i ? "," : "");
        buf_json_string(b, s->stop[i], strlen(s->stop[i]));
    }
    buf_putc(b, ']');
}

static void put_settings(struct buf *b, const struct llamacpp_view *v)
{
    const struct completions_request *c = &v->q->text;
    llamacpp_settings(b, &c->settings);
    buf_printf(b, ",\"n_probs\":%d,\"ignore_eos\":%s,\"stream\":%s,\"n_ctx\":%d,\"grammar\":",
               c->logprobs < 0 ? 0 : c->logprobs, c->settings.ignore_eos ? "true" : "false",
               c->streaming.stream ? "true" : "false", (int)v->n_ctx);
    buf_json_string(b, v->q->grammar, strlen(v->q->grammar));
    buf_putc(b, '}');
}

/* ---- one choice ---- */

static void put_timings(struct buf *b, const struct engine_usage *u)
{
    const double read = u->prefill_tokens_per_s, written = u->decode_tokens_per_s;
    buf_printf(b,
               "{\"cache_n\":%d,\"prompt_n\":%d,\"prompt_ms\":%.3f,\"prompt_per_token_ms\":%.3f,"
               "\"prompt_per_second\":%.3f,\"predicted_n\":%d,\"predicted_ms\":%.3f,"
               "\"predicted_per_token_ms\":%.3f,\"predicted_per_second\":%.3f",
               (int)u->cached_tokens, (int)(u->prompt_tokens - u->cached_tokens), u->prefill_ms,
               read > 0 ? 1000 / read : 0, read, (int)u->completion_tokens, u->decode_ms,
               written > 0 ? 1000 / written : 0, written);
    if (u->speculation.drafted)
        buf_printf(b, ",\"draft_n\":%d,\"draft_n_accepted\":%d", (int)u->speculation.drafted,
                   (int)u->speculation.accepted);
    cache_usage_put_timings(b, u);
    speculation_usage_put_timings(b, u);
    reduced_top_k_put(b, u);
    buf_putc(b, '}');
}

static void put_prompt(struct buf *b, const struct llamacpp_view *v, int choice)
{
    const struct ids *prompt = &v->q->text.prompts[choice / v->q->text.n];
    struct detokenizer d;
    struct buf text = {0};
    detokenizer_init(&d, v->stream.r->worker->text->vocab, true);
    for (size_t i = 0; i < prompt->n; i++)
        detokenizer_push(&d, prompt->at[i], &text);
    detokenizer_flush(&d, &text);
    buf_json_string(b, text_of(&text), text.len);
    b->failed |= text.failed;
    buf_fini(&text);
}

static void put_stop(struct buf *b, const struct llamacpp_view *v, const struct generation *g)
{
    static const char *const types[ENGINE_FINISH__N] = {[ENGINE_STOP_EOS] = "eos",
                                                        [ENGINE_STOP_STRING] = "word",
                                                        [ENGINE_LENGTH] = "limit",
                                                        [ENGINE_CANCELLED] = "none"};
    const struct engine_usage *u = &g->usage;
    const bool full = v->n_ctx > 0 && g->finish == ENGINE_LENGTH &&
                      u->prompt_tokens + u->completion_tokens >= v->n_ctx;
    buf_printf(b, ",\"has_new_line\":%s,\"truncated\":%s,\"stop_type\":\"%s\",\"stopping_word\":",
               g->content.len && memchr(g->content.data, '\n', g->content.len) ? "true" : "false",
               full ? "true" : "false", types[g->finish]);
    buf_json_string(b, text_of(&g->stop_string), g->stop_string.len);
}

/* The object of a choice that has ended, without its closing brace. */
static void put_final(struct buf *b, const struct llamacpp_view *v, int choice)
{
    const bool stream = v->q->text.streaming.stream;
    const struct generation *g = &v->stream.x->generations[choice];
    const struct llamacpp_choice *kept = &v->choices[choice];
    const struct engine_usage *u = &g->usage;
    const char *id = v->stream.r->worker->model_id;
    buf_printf(b, "{\"index\":%d,\"content\":", choice);
    buf_json_string(b, stream ? "" : text_of(&g->content), stream ? 0 : g->content.len);
    buf_printf(b, ",\"tokens\":[%s],\"id_slot\":-1,\"stop\":true,\"model\":",
               !stream && v->q->return_tokens ? text_of(&kept->tokens) : "");
    buf_json_string(b, id, strlen(id));
    buf_printf(b,
               ",\"tokens_predicted\":%d,\"tokens_evaluated\":%d,\"tokens_cached\":%d,\"generation_"
               "settings\":",
               (int)u->completion_tokens, (int)u->prompt_tokens, (int)u->cached_tokens);
    put_settings(b, v);
    buf_puts(b, ",\"prompt\":");
    put_prompt(b, v, choice);
    put_stop(b, v, g);
    buf_puts(b, ",\"timings\":");
    put_timings(b, u);
    if (!stream && v->q->text.logprobs >= 0)
        buf_printf(b, ",\"completion_probabilities\":[%s]", text_of(&kept->probabilities));
    b->failed |= g->content.failed || kept->tokens.failed || kept->probabilities.failed;
}

/* The member at "a/b", or NULL. */
static cJSON *member_at(cJSON *o, const char *path)
{
    char name[64];
    while (o) {
        size_t len = strcspn(path, "/");
        if (len >= sizeof name)
            return NULL;
        memcpy(name, path, len);
        name[len] = '\0';
        o = cJSON_GetObjectItemCaseSensitive(o, name);
        if (!path[len])
            return o;
        path += len + 1;
    }
    return NULL;
}

/* response_fields: those members, each under its path. Without the closing brace. */
static void put_fields(struct buf *b, const struct buf *object, const cJSON *paths)
{
    struct err e = {0};
    const cJSON *path;
    cJSON *all = object->failed ? NULL : json_parse(object->data, object->len, NULL, &e),
          *some = cJSON_CreateObject();
    cJSON_ArrayForEach (path, paths) {
        cJSON *found = member_at(all, path->valuestring);
        if (found && !cJSON_GetObjectItemCaseSensitive(some, path->valuestring))
            cJSON_AddItemToObject(some, path->valuestring, cJSON_Duplicate(found, true));
    }
    if (!all || !some || !json_write(b, some))
        b->failed = true;
    else
        b->len--; /* its closing brace */
    cJSON_Delete(all);
    cJSON_Delete(some);
}

/* The object as it was asked for. The first of an answer names what was ignored. */
static void put_result(struct buf *b, struct llamacpp_view *v, int choice)
{
    struct buf object = {0}, warnings = {0};
    put_final(v->q->fields ? &object : b, v, choice);
    if (v->q->fields) {
        buf_putc(&object, '}');
        put_fields(b, &object, v->q->fields);
    }
    if (!v->stream.warned)
        ignored_write(&warnings, v->stream.r);
    v->stream.warned = true;
    if (warnings.len) /* begins with a comma */
        buf_puts(b, warnings.data + buf_ends_with(b, '{'));
    buf_putc(b, '}');
    b->failed |= warnings.failed;
    buf_fini(&object);
    buf_fini(&warnings);
}

/* ---- while it runs ---- */

static void note_probability(struct buf *b, const struct vocab *v, const struct engine_token *t)
{
    buf_printf(b, "%s{\"id\":%d,", b->len ? "," : "", (int)t->id);
    openai_token_members(b, v, t->id, t->logprob);
    buf_puts(b, ",\"top_logprobs\":[");
    for (int k = 0; k < t->n_top; k++) {
        buf_printf(b, "%s{\"id\":%d,", k ? "," : "", (int)t->top[k].id);
        openai_token_members(b, v, t->top[k].id, t->top[k].logprob);
        buf_putc(b, '}');
    }
    buf_puts(b, "]}");
}

static void take_tokens(void *context, int choice, const struct engine_event *ev)
{
    struct llamacpp_view *v = context;
    struct llamacpp_choice *kept = &v->choices[choice];
    for (int i = 0; i < ev->n_tokens; i++) {
        buf_printf(&kept->tokens, "%s%d", kept->tokens.len ? "," : "", (int)ev->tokens[i].id);
        if (v->q->text.logprobs >= 0)
            note_probability(&kept->probabilities, v->stream.r->worker->text->vocab,
                             &ev->tokens[i]);
    }
}

/* {"index":0,"content":...,"tokens":[...],"stop":false, ... */
static void begin_part(struct llamacpp_view *v, int choice, const char *text, size_t len)
{
    const struct generation *g = &v->stream.x->generations[choice];
    struct llamacpp_choice *kept = &v->choices[choice];
    buf_clear(&v->stream.line);
    buf_printf(&v->stream.line, "{\"index\":%d,\"content\":", choice);
    buf_json_string(&v->stream.line, text, len);
    buf_printf(&v->stream.line,
               ",\"tokens\":[%s],\"stop\":false,\"id_slot\":-1,\"tokens_predicted\":%d,\"tokens_"
               "evaluated\":%d",
               text_of(&kept->tokens), g->n_tokens, (int)v->stream.x->n_prompt[choice]);
    if (kept->probabilities.len)
        buf_printf(&v->stream.line, ",\"completion_probabilities\":[%s]", kept->probabilities.data);
    v->stream.line.failed |= kept->tokens.failed || kept->probabilities.failed;
    buf_clear(&kept->tokens);
    buf_clear(&kept->probabilities);
}

static void end_part(struct llamacpp_view *v)
{
    answer_stream_warnings(&v->stream);
    buf_putc(&v->stream.line, '}');
    answer_stream_event(&v->stream, NULL);
}

static void take_delta(void *context, int choice, const struct chat_delta *d)
{
    if (!d->len)
        return;
    begin_part(context, choice, d->text, d->len);
    end_part(context);
}

static void take_progress(void *context, int choice)
{
    struct llamacpp_view *v = context;
    const struct generation *g = &v->stream.x->generations[choice];
    if (!v->q->progress)
        return;
    begin_part(v, choice, "", 0);
    buf_printf(&v->stream.line,
               ",\"prompt_progress\":{\"total\":%d,\"cache\":%d,\"processed\":%d,\"time_ms\":%.0f}",
               g->total, g->cached, g->done, (double)(clock_ns() - v->stream.r->begin_ns) / 1e6);
    end_part(v);
}

static void take_done(void *context, int choice)
{
    struct llamacpp_view *v = context;
    if (v->choices[choice]
            .tokens.len) { /* of tokens without a text, such as the one that ends the answer */
        begin_part(v, choice, "", 0);
        end_part(v);
    }
    buf_clear(&v->stream.line);
    put_result(&v->stream.line, v, choice);
    answer_stream_event(&v->stream, NULL);
}

/* ---- the whole ---- */

static void send_reply(void *context, const struct err *broken)
{
    struct llamacpp_view *v = context;
    (void)broken;
    struct buf b = {0};
    const bool several = v->stream.x->n > 1;
    buf_puts(&b, several ? "[" : "");
    for (int i = 0; i < v->stream.x->n; i++) {
        buf_puts(&b, i ? "," : "");
        put_result(&b, v, i);
    }
    buf_puts(&b, several ? "]" : "");
    reply_json_buf(v->stream.r, 200, &b);
    buf_fini(&b);
}

static void begin(void *context)
{
    struct llamacpp_view *v = context;
    answer_stream_begin(&v->stream);
}

static void end(void *context, const struct err *broken)
{
    struct llamacpp_view *v = context;
    if (broken) {
        buf_clear(&v->stream.line);
        reply_error_object(&v->stream.line, v->stream.r, broken);
        answer_stream_event(&v->stream, NULL);
    }
    sse_flush(&v->stream.sse);
}

struct answer_view llamacpp_view(struct llamacpp_view *v, struct request *r,
                                 const struct llamacpp_request *q, const struct inference *x)
{
    struct status_page page;
    engine_status_read(r, &page);
    *v = (struct llamacpp_view){.stream = {.r = r, .x = x}, .q = q, .n_ctx = page.n_ctx};
    if (!q->text.streaming.stream)
        return (struct answer_view){.listener = {.context = v, .tokens = take_tokens},
                                    .end = send_reply};
    return (struct answer_view){
        .listener = {.context = v,
                     .tokens = take_tokens,
                     .delta = take_delta,
                     .progress = take_progress,
                     .done = take_done,
                     .pause = answer_stream_pause,
                     .idle_ms = answer_stream_idle_ms,
                     .idle = answer_stream_keep_alive},
        .begin = begin,
        .end = end,
    };
}

void llamacpp_view_fini(struct llamacpp_view *v)
{
    answer_stream_fini(&v->stream);
    for (int i = 0; i < INFERENCE_MAX_CHOICES; i++) {
        buf_fini(&v->choices[i].tokens);
        buf_fini(&v->choices[i].probabilities);
    }
}

const struct api_dialect llamacpp_dialect = {
    .error = reply_error_object,
    .stream_abort = {.close_event = DIALECT_SSE_CLOSE, .error_event = DIALECT_ERROR_EVENT},
};
