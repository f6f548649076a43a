/* The stream of an upstream, one object a line, in each dialect: what it makes of a job's events
 * must be frames that a worker reads, texts that its parser takes, and figures in their bounds.
 * The first line that is an object is also taken as a chat, from which each dialect makes a request
 * that is JSON. First byte: dialect and how many lines come at once. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/chat/chat_parser.h"
#include "engine/wire/message.h"
#include "fcgi/relay/relay_dialect.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const dialects[] = {"openai", "anthropic", "ollama"};

static void delta(void *context, const struct chat_delta *d)
{
    (void)context;
    if ((d->type == CHAT_REASONING || d->type == CHAT_CONTENT) && !d->len)
        abort();
    if (d->type == CHAT_CALL && !d->name[0])
        abort();
}

static void take_event(struct chat_parser *p, const struct engine_event *ev, bool *done)
{
    struct err e = {0};
    if (ev->job != 7 || *done)
        abort(); /* nothing comes after the end */
    if (ev->type == ENGINE_TOKENS && ev->text_len &&
        !chat_parser_push(p, ev->text, ev->text_len, &e))
        abort();
    *done = ev->type == ENGINE_DONE || ev->type == ENGINE_FAILED;
    if (ev->type != ENGINE_DONE)
        return;
    if (ev->usage.completion_tokens < 0 || ev->usage.completion_tokens > RELAY_MOST_TOKENS ||
        ev->usage.prompt_tokens < 0 || ev->usage.prompt_tokens > 1000 ||
        ev->usage.cached_tokens > ev->usage.prompt_tokens)
        abort();
}

/* As a worker hears it. */
static void hear(const struct buf *frames)
{
    struct err e = {0};
    const struct chat_parser_params params = {.format = CHAT_RELAYED_FORMAT, .on_delta = delta};
    struct chat_parser *p = chat_parser_create(&params, &e);
    struct event_box box = {0};
    struct frame f;
    size_t used;
    bool done = false;
    for (size_t at = 0; at < frames->len; at += used) {
        struct engine_event ev;
        if (frame_parse(frames->data + at, frames->len - at, &f, &used, &e) != 1 ||
            !message_get_event(&f, &ev, &box, &e))
            abort();
        take_event(p, &ev, &done);
    }
    if (!done || !chat_parser_finish(p, &e))
        abort();
    chat_parser_destroy(&p);
    event_box_fini(&box);
}

static cJSON *object_of(const char *text, size_t len)
{
    const struct json_limits limits = {
        .max_bytes = 1 << 20, .allow_duplicates = true, .allow_nul = true};
    struct err e = {0};
    cJSON *o = json_parse(text, len, &limits, &e);
    if (cJSON_IsObject(o))
        return o;
    cJSON_Delete(o);
    return NULL;
}

/* A body, which a dialect makes of the chat, or begins for the chat's own text to end. */
static bool put(const struct relay_dialect *d, struct buf *out, const cJSON *chat, struct err *e)
{
    if (d->put_request)
        return d->put_request(out, chat, "remote", e);
    char *text = cJSON_PrintUnformatted(chat);
    d->put_begin(out, "remote");
    buf_puts(out, text + 1);
    cJSON_free(text);
    return true;
}

static void ask(const cJSON *chat)
{
    for (size_t i = 0; i < sizeof dialects / sizeof dialects[0]; i++) {
        struct buf out = {0};
        struct err e = {0};
        if (put(relay_dialect_find(dialects[i]), &out, chat, &e)) {
            cJSON *o = object_of(out.data, out.len);
            if (!o && chat->child) /* an empty one has no comma to end */
                abort();
            cJSON_Delete(o);
        } else if (!e.code) {
            abort(); /* a refusal has its reason */
        }
        buf_fini(&out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const struct relay_dialect *d = relay_dialect_find(dialects[data[0] % 3]);
    const int at_once = 1 + data[0] / 3 % 8;
    struct buf frames = {0};
    struct relay_answer a = {.job = 7, .events = &frames, .most_prompt = 1000};
    struct err e = {0};
    const char *at = (const char *)data + 1, *end = (const char *)data + size;
    bool over = false, asked = false, ok = true;
    for (int n = 1; at < end && ok && !over && !a.failed.code; n++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop)
            stop = end;
        cJSON *o = object_of(at, (size_t)(stop - at));
        if (o && !asked)
            ask(o);
        asked |= o != NULL;
        ok = o && d->take(&a, o, &over, &e);
        cJSON_Delete(o);
        if (n % at_once == 0)
            relay_answer_flush(&a);
        at = stop + (stop < end);
    }
    if (a.failed.code)
        relay_answer_fail(&a, &a.failed);
    else
        relay_answer_done(&a, 10);
    hear(&frames);
    relay_answer_fini(&a);
    buf_fini(&frames);
    return 0;
}
