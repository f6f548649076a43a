/* openai.h: the members that several of OpenAI's objects share. */
#include "fcgi/openai/openai.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/chat/chat_parser.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/model_name.h"
#include "fcgi/inference/cache_usage.h"
#include "fcgi/inference/inference.h"
#include "fcgi/inference/reduced_top_k.h"
#include "fcgi/inference/speculation_usage.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/process/worker.h"

#define LOWEST_LOGPROB (-9999.0) /* what OpenAI sends for a token that could not be drawn */

void openai_id(char out[OPENAI_ID_SIZE], const char *prefix, const struct request *r)
{
    snprintf(out, OPENAI_ID_SIZE, "%s%s", prefix, r->id + strlen("req_"));
}

bool openai_error_again(struct request *r, const struct err *e)
{
    const int status = reply_error_status(r, e);
    if (status != 429 && status != 503)
        reply_header(r, "X-Should-Retry", "false");
    return false;
}

void openai_head(struct buf *b, const char *id, const char *object, const struct request *r)
{
    const struct worker *w = r->worker;
    buf_printf(b, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", id, object,
               (long long)clock_wall_s());
    const char *model = model_name_of(r);
    buf_json_string(b, model, strlen(model));
    buf_printf(b, ",\"system_fingerprint\":\"fp_%016llx\"",
               (unsigned long long)vocab_fingerprint(w->text->vocab));
}

/* ended: it is known where the cached tokens came from, and what drafts did. */
static void put_usage(struct buf *b, const struct engine_usage *u, int reasoning_tokens, bool ended)
{
    buf_printf(b,
               "{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d,"
               "\"prompt_tokens_details\":{\"cached_tokens\":%d",
               (int)u->prompt_tokens, (int)u->completion_tokens,
               (int)(u->prompt_tokens + u->completion_tokens), (int)u->cached_tokens);
    if (ended) {
        buf_puts(b, ",\"cached_from\":");
        cache_usage_put_from(b, u);
    }
    buf_putc(b, '}');
    if (reasoning_tokens >= 0 || ended)
        buf_puts(b, ",\"completion_tokens_details\":{");
    if (reasoning_tokens >= 0)
        buf_printf(b, "\"reasoning_tokens\":%d%s", reasoning_tokens, ended ? "," : "}");
    if (ended) {
        speculation_usage_put_prediction(b, u);
        buf_putc(b, '}');
    }
    reduced_top_k_put(b, u);
    buf_putc(b, '}');
}

void openai_usage(struct buf *b, const struct engine_usage *u, int reasoning_tokens)
{
    put_usage(b, u, reasoning_tokens, true);
}

/* Writes the figures of experts that are not all in one memory; a job's share of a step may be a
 * fraction. */
static void put_experts(struct buf *b, const double v[ENGINE_EXPERT__N])
{
    static const char *const names[ENGINE_EXPERT__N] = {
        [ENGINE_EXPERT_READ_BYTES] = "read_bytes",
        [ENGINE_EXPERT_ASKED] = "asked",
        [ENGINE_EXPERT_HITS] = "hits",
        [ENGINE_EXPERT_LATE] = "late",
        [ENGINE_EXPERT_MISSES] = "misses",
        [ENGINE_EXPERT_EVICTIONS] = "evictions",
        [ENGINE_EXPERT_DEVICE_HITS] = "device_hits",
        [ENGINE_EXPERT_DEVICE_MISSES] = "device_misses",
        [ENGINE_EXPERT_DEVICE_EVICTIONS] = "device_evictions",
        [ENGINE_EXPERT_BUS_BYTES] = "bus_bytes"};
    const bool disk = v[ENGINE_EXPERT_ASKED] > 0,
               device = v[ENGINE_EXPERT_DEVICE_HITS] + v[ENGINE_EXPERT_DEVICE_MISSES] > 0;
    if (disk)
        buf_printf(b, ",\"expert_read_bytes\":%.0f,\"expert_hit_rate\":%.4f",
                   v[ENGINE_EXPERT_READ_BYTES], v[ENGINE_EXPERT_HITS] / v[ENGINE_EXPERT_ASKED]);
    if (!disk && !device)
        return;
    buf_puts(b, ",\"experts\":");
    for (int i = 0; i < ENGINE_EXPERT__N; i++) {
        buf_printf(b, "%c\"%s\":", i ? ',' : '{', names[i]);
        buf_json_number(b, v[i]);
    }
    buf_putc(b, '}');
}

static void put_memory(struct buf *b, const struct engine_memory *m)
{
    buf_printf(b,
               ",\"memory\":{\"resident_bytes\":%llu,\"anonymous_bytes\":%llu,\"mapped_bytes\":%"
               "llu,\"locked_bytes\":%llu,"
               "\"device_bytes\":%llu}",
               (unsigned long long)m->resident, (unsigned long long)m->anonymous,
               (unsigned long long)m->mapped, (unsigned long long)m->locked,
               (unsigned long long)m->device);
}

void openai_timings(struct buf *b, const struct engine_usage *u)
{
    buf_printf(
        b,
        "{\"queue_ms\":%.3f,\"prefill_ms\":%.3f,\"decode_ms\":%.3f,\"prefill_tokens_per_s\":%.3f,"
        "\"decode_tokens_per_s\":%.3f",
        u->queue_ms, u->prefill_ms, u->decode_ms, u->prefill_tokens_per_s, u->decode_tokens_per_s);
    put_experts(b, u->experts);
    put_memory(b, &u->memory);
    cache_usage_put_timings(b, u);
    speculation_usage_put_timings(b, u);
    reduced_top_k_put(b, u);
    buf_putc(b, '}');
}

void openai_logprob(struct buf *b, float logprob)
{
    bool finite = logprob == logprob && (double)logprob > LOWEST_LOGPROB;
    buf_printf(b, "%.9g", finite ? (double)logprob : LOWEST_LOGPROB);
}

void openai_token_members(struct buf *b, const struct vocab *v, int32_t id, float logprob)
{
    size_t len = 0;
    const char *bytes = vocab_bytes(v, id, &len);
    buf_puts(b, "\"token\":");
    buf_json_string(b, bytes ? bytes : "",
                    len); /* half a character shows as U+FFFD; `bytes` has it whole */
    buf_puts(b, ",\"logprob\":");
    openai_logprob(b, logprob);
    buf_puts(b, ",\"bytes\":[");
    for (size_t i = 0; i < len; i++)
        buf_printf(b, "%s%d", i ? "," : "", (unsigned char)bytes[i]);
    buf_putc(b, ']');
}

void openai_logprobs(struct buf *items, const struct vocab *v, const struct engine_token *tokens,
                     int n)
{
    for (int i = 0; i < n; i++) {
        const struct engine_token *t = &tokens[i];
        buf_puts(items, items->len ? ",{" : "{");
        openai_token_members(items, v, t->id, t->logprob);
        buf_puts(items, ",\"top_logprobs\":[");
        for (int k = 0; k < t->n_top; k++) {
            buf_puts(items, k ? ",{" : "{");
            openai_token_members(items, v, t->top[k].id, t->top[k].logprob);
            buf_putc(items, '}');
        }
        buf_puts(items, "]}");
    }
}

void openai_event_logprobs(struct buf *items, const struct request *r,
                           const struct engine_event *ev)
{
    const char *at = ev->text, *const end = at + ev->text_len, *piece;
    size_t n;
    if (!r->model) {
        openai_logprobs(items, r->worker->text->vocab, ev->tokens, ev->n_tokens);
        return;
    }
    while ((n = chat_relayed_logprobs(&at, end, &piece)) > 0) {
        if (items->len)
            buf_putc(items, ',');
        buf_append(items, piece, n);
    }
}

static void put_ranked(struct buf *b, const struct vocab *v, int32_t id, float logprob,
                       int32_t rank)
{
    size_t len = 0;
    const char *bytes = vocab_bytes(v, id, &len);
    buf_printf(b, "\"%d\":{\"logprob\":", (int)id);
    openai_logprob(b, logprob);
    buf_printf(b, ",\"rank\":%d,\"decoded_token\":", (int)rank);
    buf_json_string(b, bytes ? bytes : "", len);
    buf_putc(b, '}');
}

void openai_prompt_logprob(struct buf *b, const struct vocab *v, const struct engine_token *t,
                           int n_top)
{
    buf_puts(b, ",{");
    put_ranked(b, v, t->id, t->logprob, t->rank);
    for (int k = 0; k < t->n_top && k < n_top; k++)
        if (t->top[k].id != t->id) {
            buf_putc(b, ',');
            put_ranked(b, v, t->top[k].id, t->top[k].logprob, k + 1);
        }
    buf_putc(b, '}');
}

void openai_usage_so_far(struct buf *b, const struct stream_options *o, const struct inference *x,
                         int reasoning_tokens)
{
    if (o->continuous_usage) {
        const struct engine_usage usage = inference_usage_so_far(x);
        buf_puts(b, ",\"usage\":");
        put_usage(b, &usage, reasoning_tokens, false);
    } else if (o->include_usage) {
        buf_puts(b, ",\"usage\":null");
    }
}

void openai_usage_chunk(struct buf *b, const struct buf *head, const struct inference *x,
                        int reasoning_tokens)
{
    const struct engine_usage usage = inference_usage(x);
    buf_clear(b);
    buf_append(b, head->data, head->len);
    buf_puts(b, ",\"choices\":[],\"usage\":");
    openai_usage(b, &usage, reasoning_tokens);
    buf_puts(b, ",\"timings\":");
    openai_timings(b, &usage);
    buf_putc(b, '}');
}
