/* Answers as they come, in two different cuts: both must give the same, no piece of text may be
 * empty, and each call's arguments must be a JSON object. First byte: format and whether the
 * reasoning is open; second: how to cut. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/chat/chat_parser.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const formats[] = {"hermes",        "qwen3_coder", "harmony", "bailing",
                                      "deepseek_v3.1", "deepseek_v3", "glm",     "kimi_k2",
                                      "minimax_m2",    "llama3",      "mistral", "plain"};

struct result {
    struct buf text[2], calls, arguments;
};

static void take(void *context, const struct chat_delta *d)
{
    struct result *r = context;
    if (d->type == CHAT_REASONING || d->type == CHAT_CONTENT) {
        if (!d->len)
            abort();
        buf_append(&r->text[d->type == CHAT_CONTENT], d->text, d->len);
    } else if (d->type == CHAT_CALL) {
        if (!d->name[0])
            abort();
        buf_printf(&r->calls, "%d %s ", d->index, d->name);
        buf_clear(&r->arguments);
    } else if (d->type == CHAT_ARGUMENTS) {
        buf_append(&r->arguments, d->text, d->len);
    } else {
        const struct json_limits limits = {
            .max_depth = 200, .allow_duplicates = true, .allow_nul = true};
        cJSON *v = json_parse(r->arguments.data, r->arguments.len, &limits, NULL);
        if (!cJSON_IsObject(v))
            abort();
        cJSON_Delete(v);
        buf_append(&r->calls, r->arguments.data, r->arguments.len);
    }
}

static struct result parse(const struct chat_parser_params *like, const char *text, size_t len,
                           size_t piece)
{
    struct result r = {0};
    struct err e = {0};
    struct chat_parser_params params = *like;
    params.on_delta = take;
    params.context = &r;
    struct chat_parser *p = chat_parser_create(&params, &e);
    for (size_t at = 0; at < len; at += piece)
        if (!chat_parser_push(p, text + at, len - at < piece ? len - at : piece, &e))
            abort();
    if (!chat_parser_finish(p, &e))
        abort();
    chat_parser_destroy(&p);
    return r;
}

static bool same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && (!a->len || !memcmp(a->data, b->data, a->len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static cJSON *tools;
    if (!tools)
        tools = cJSON_Parse("[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{"
                            "\"properties\":{\"a\":{\"type\":\"string\"},"
                            "\"b\":{\"type\":\"integer\"},\"c\":{}}}}},{\"type\":\"function\","
                            "\"function\":{\"name\":\"g\"}}]");
    if (size < 2)
        return 0;
    const char *text = (const char *)data + 2;
    const struct chat_parser_params like = {.format = formats[data[0] % 12],
                                            .opens_reasoning = data[0] & 128,
                                            .tools = data[0] & 64 ? NULL : tools,
                                            .stream_calls = data[0] & 32};
    struct result one = parse(&like, text, size - 2, size);
    struct result two = parse(&like, text, size - 2, data[1] % 16 + 1);
    if (!same(&one.text[0], &two.text[0]) || !same(&one.text[1], &two.text[1]) ||
        !same(&one.calls, &two.calls) ||
        !same(&one.arguments, &two.arguments)) /* of a call that was given out and broke */
        abort();
    struct result *const both[] = {&one, &two};
    for (int i = 0; i < 2; i++) {
        buf_fini(&both[i]->text[0]);
        buf_fini(&both[i]->text[1]);
        buf_fini(&both[i]->calls);
        buf_fini(&both[i]->arguments);
    }
    return 0;
}
