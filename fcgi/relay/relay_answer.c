/* relay_answer.h: pieces go into one marked text; each read from an upstream makes one event of
 * them. */
#include "fcgi/relay/relay_answer.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "engine/chat/chat_parser.h"
#include "engine/wire/message.h"

#define MAX_PIECES 4096            /* tokens of one event */
#define MAX_HELD ((size_t)4 << 20) /* bytes of a call's arguments that wait for their turn */

static void mark(struct relay_answer *a, int which)
{
    if (a->mark == which)
        return;
    buf_putc(&a->text, (char)which);
    a->mark = which;
}

static void count(struct relay_answer *a)
{
    a->any = true;
    a->fresh++;
    a->last_ms = clock_ms();
    if (!a->first_ms)
        a->first_ms = a->last_ms;
    if (a->fresh >= MAX_PIECES)
        relay_answer_flush(a);
}

/* Ends the call whose arguments are being written. */
static void end_call(struct relay_answer *a)
{
    if (a->call < 0 || !a->begun[a->call])
        return;
    mark(a, CHAT_RELAYED_ARGUMENTS);
    if (!a->has_arguments) /* Anthropic sends nothing for none; clients parse what they get */
        buf_puts(&a->text, "{}");
    buf_putc(&a->text, (char)CHAT_RELAYED_CALL_END);
    a->mark = CHAT_RELAYED_CALL_END;
    a->call = -1;
}

/* No byte that is a mark of ours comes from outside. */
static void append(struct relay_answer *a, const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t n = 0;
        while (i + n < len && (unsigned char)text[i + n] < CHAT_RELAYED_CONTENT)
            n++;
        buf_append(&a->text, text + i, n);
        i += n;
        if (i < len) {
            buf_puts(&a->text, "\xEF\xBF\xBD");
            i++;
        }
    }
}

static void append_arguments(struct relay_answer *a, const char *text, size_t len)
{
    append(a, text, len);
    a->has_arguments |= len > 0;
}

void relay_answer_text(struct relay_answer *a, bool reasoning, const char *text, size_t len)
{
    if (!len)
        return;
    if (a->n_calls)
        end_call(a);
    mark(a, reasoning ? CHAT_RELAYED_REASONING : CHAT_RELAYED_CONTENT);
    append(a, text, len);
    count(a);
}

static void begin_call(struct relay_answer *a, int index)
{
    end_call(a);
    a->mark = 0;
    mark(a, CHAT_RELAYED_CALL);
    append(a, a->names[index].data, a->names[index].len);
    mark(a, CHAT_RELAYED_ARGUMENTS);
    a->call = index;
    a->begun[index] = true;
    a->has_arguments = false;
}

static bool hold(struct relay_answer *a, int index, const char *text, size_t len)
{
    if (!a->waiting[index] && !(a->waiting[index] = calloc(1, sizeof *a->waiting[index])))
        return false;
    a->waiting[index]->limit = MAX_HELD;
    return buf_append(a->waiting[index], text, len);
}

/* The first call is given out as it comes. Further ones wait for its end, which is known only at
 * the end of all, because some upstreams mix the pieces of several. */
void relay_answer_call(struct relay_answer *a, int64_t index, const char *name,
                       const char *arguments, size_t len)
{
    if (index < 0 || index >= RELAY_MAX_CALLS) {
        err_set(&a->failed, ERR_LIMIT, "the upstream calls more than %d functions at once",
                RELAY_MAX_CALLS);
        return;
    }
    const int i = (int)index;
    if (a->n_calls == 0)
        a->call = -1;
    if (i >= a->n_calls)
        a->n_calls = i + 1;
    if (name && !a->names[i].len)
        buf_puts(&a->names[i], name);
    if (!a->names[i].len || (a->call != i && a->call >= 0)) {
        if (!hold(a, i, arguments, len))
            a->text.failed = true;
        return;
    }
    if (!a->begun[i]) {
        begin_call(a, i);
    } else if (a->call != i) {
        err_set(&a->failed, ERR_UNAVAILABLE, "the upstream goes on with a call that had ended");
        return;
    }
    if (a->waiting[i]) {
        append_arguments(a, a->waiting[i]->data, a->waiting[i]->len);
        buf_clear(a->waiting[i]);
    }
    append_arguments(a, arguments, len);
    count(a);
}

/* At the end: the calls that had to wait for their turn. */
static void finish_calls(struct relay_answer *a)
{
    if (a->n_calls)
        end_call(a);
    for (int i = 0; i < a->n_calls; i++) {
        if (a->begun[i] || !a->names[i].len)
            continue;
        begin_call(a, i);
        if (a->waiting[i])
            append_arguments(a, a->waiting[i]->data, a->waiting[i]->len);
        count(a);
        end_call(a);
        relay_answer_flush(a); /* an event's text has its limit */
    }
}

/* Nothing but what OpenAI's form has goes on. */
static void put_known(struct buf *out, const cJSON *item, bool top)
{
    static const char *const names[] = {"token", "logprob", "bytes"};
    const cJSON *more, *v;
    for (int i = 0; i < 3; i++) {
        buf_printf(out, "%c\"%s\":", i ? ',' : '{', names[i]);
        v = json_member(item, names[i]);
        if (!v || !json_write(out, v))
            buf_puts(out, "null");
    }
    if (top) {
        const char *comma = "";
        buf_puts(out, ",\"top_logprobs\":[");
        cJSON_ArrayForEach (more, json_member(item, "top_logprobs")) {
            buf_puts(out, comma);
            put_known(out, more, false);
            comma = ",";
        }
        buf_putc(out, ']');
    }
    buf_putc(out, '}');
}

void relay_answer_logprobs(struct relay_answer *a, const cJSON *items)
{
    struct buf text = {.limit = MAX_HELD};
    const cJSON *item;
    if (!cJSON_IsArray(items) || !items->child)
        return;
    a->had_logprobs = true;
    cJSON_ArrayForEach (item, items) {
        if (text.len)
            buf_putc(&text, ',');
        put_known(&text, item, true);
    }
    a->mark = 0; /* said again, in each event */
    mark(a, CHAT_RELAYED_LOGPROBS);
    append(a, text.data ? text.data : "", text.len);
    a->text.failed |= text.failed;
    buf_fini(&text);
}

void relay_answer_progress(struct relay_answer *a, int64_t done, int64_t total, int64_t cached)
{
    if (done < 0 || total < 1 || done > total || total > INT32_MAX || cached < 0 || a->any)
        return;
    message_put_event(a->events, &(struct engine_event){.type = ENGINE_PROGRESS,
                                                        .job = a->job,
                                                        .done = (int32_t)done,
                                                        .total = (int32_t)total,
                                                        .cached = (int32_t)cached});
}

int64_t relay_answer_figure(const cJSON *o, const char *name)
{
    const cJSON *v = json_member(o, name);
    return cJSON_IsNumber(v) && v->valuedouble >= 0 && v->valuedouble < 1e9
               ? (int64_t)v->valuedouble
               : -1;
}

static void take_figure(int64_t *at, int64_t v)
{
    if (v >= 0 && v <= INT32_MAX)
        *at = v;
}

void relay_answer_usage(struct relay_answer *a, int64_t prompt, int64_t cached, int64_t completion)
{
    take_figure(&a->prompt_tokens, prompt);
    take_figure(&a->cached_tokens, cached);
    take_figure(&a->completion_tokens, completion);
    a->has_usage |= completion >= 0;
}

void relay_answer_finish(struct relay_answer *a, enum engine_finish finish)
{
    a->finished = true;
    a->finish = finish;
}

static void put_tokens(struct relay_answer *a, int32_t n)
{
    static const struct engine_token none[MAX_PIECES] = {{.id = -1}};
    struct engine_event ev = {.type = ENGINE_TOKENS,
                              .job = a->job,
                              .tokens = none,
                              .n_tokens = n > MAX_PIECES ? MAX_PIECES : n,
                              .decode_ms = a->first_ms ? a->last_ms - a->first_ms : 0,
                              .text = a->text.data ? a->text.data : "",
                              .text_len = a->text.len};
    message_put_event(a->events, &ev);
    a->counted += ev.n_tokens;
    buf_clear(&a->text);
}

void relay_answer_flush(struct relay_answer *a)
{
    if (!a->fresh && !a->text.len)
        return;
    a->events->failed |= a->text.failed;
    put_tokens(a, a->fresh);
    a->fresh = 0;
}

static int64_t at_most(int64_t v, int64_t most)
{
    const int64_t bound = most > 0 ? most : RELAY_MOST_TOKENS;
    return v < bound ? v : bound;
}

/* A user is charged for what came at least, and never for more than was asked for. */
static void bound_figures(struct relay_answer *a)
{
    const int64_t told = a->has_usage ? at_most(a->completion_tokens, a->most_tokens) : 0;
    a->completion_tokens = told > a->counted ? told : a->counted;
    a->prompt_tokens = at_most(a->prompt_tokens, a->most_prompt);
}

void relay_answer_done(struct relay_answer *a, int64_t estimate)
{
    struct engine_event ev = {.type = ENGINE_DONE, .job = a->job, .finish = a->finish};
    struct engine_usage *u = &ev.usage;
    finish_calls(a);
    relay_answer_flush(a);
    bound_figures(a);
    u->prompt_tokens = (int32_t)(a->prompt_tokens ? a->prompt_tokens : estimate);
    u->cached_tokens =
        (int32_t)(a->cached_tokens < u->prompt_tokens ? a->cached_tokens : u->prompt_tokens);
    u->completion_tokens = (int32_t)a->completion_tokens;
    u->prefill_ms = a->first_ms ? a->first_ms - a->asked_ms : 0;
    u->decode_ms = a->first_ms ? a->last_ms - a->first_ms : 0;
    if (u->prefill_ms > 0)
        u->prefill_tokens_per_s = (u->prompt_tokens - u->cached_tokens) * 1e3 / u->prefill_ms;
    if (u->decode_ms > 0 && u->completion_tokens > 1)
        u->decode_tokens_per_s = (u->completion_tokens - 1) * 1e3 / u->decode_ms;
    message_put_event(a->events, &ev);
}

void relay_answer_fail(struct relay_answer *a, const struct err *why)
{
    relay_answer_flush(a);
    bound_figures(a);
    message_put_event(a->events,
                      &(struct engine_event){.type = ENGINE_FAILED, .job = a->job, .error = *why});
}

void relay_answer_fini(struct relay_answer *a)
{
    buf_fini(&a->text);
    for (int i = 0; i < RELAY_MAX_CALLS; i++) {
        buf_fini(&a->names[i]);
        if (a->waiting[i])
            buf_fini(a->waiting[i]);
        free(a->waiting[i]);
        a->waiting[i] = NULL;
    }
}

void relay_answer_again(struct relay_answer *a)
{
    const struct relay_answer kept = {.job = a->job,
                                      .events = a->events,
                                      .asked_ms = a->asked_ms,
                                      .most_prompt = a->most_prompt,
                                      .wants_logprobs = a->wants_logprobs,
                                      .most_tokens = a->most_tokens};
    relay_answer_fini(a);
    *a = kept;
}
