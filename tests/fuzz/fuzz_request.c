/* Everything of a request that a stranger writes: path, query, cookie and body. */
#include <fcgiapp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/tokenizer/vocab_image.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/settings.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/process/worker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Cuts the next line off the input; NAME=line, as FastCGI has it. */
static char *take_line(const uint8_t **data, size_t *size, const char *name)
{
    const uint8_t *end = memchr(*data, '\n', *size);
    size_t len = end ? (size_t)(end - *data) : *size, n = strlen(name);
    char *out = malloc(n + len + 1);
    if (!out)
        abort();
    memcpy(out, name, n);
    memcpy(out + n, *data, len);
    out[n + len] = '\0';
    *data += len + (end != NULL);
    *size -= len + (end != NULL);
    return out;
}

/* Whether a field is there that is read with the model's tokens, of which this target has none. */
static bool asks_tokens(const cJSON *o)
{
    static const char *const fields[] = {"logit_bias", "bad_words"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (cJSON_HasObjectItem(o, fields[i]))
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct vocab_header no_tokens;
    static struct vocab vocab = {.header = &no_tokens};
    static const struct text_model text = {.vocab = &vocab, .temperature = 1, .top_p = 1};
    static const struct worker worker = {.text = &text};
    char *uri = take_line(&data, &size, "REQUEST_URI="),
         *cookie = take_line(&data, &size, "HTTP_COOKIE=");
    char type[] = "CONTENT_TYPE=application/json", *params[] = {uri, cookie, type, NULL};
    FCGX_Request fcgx = {.envp = params, .ipcFd = -1};
    struct request r;
    struct err e = {0};
    int64_t n = 0;
    if (!request_init(&r, &fcgx, &worker))
        abort();
    if (request_begin(&r, NULL, &e)) {
        request_query(&r, "q");
        request_query_int(&r, "limit", 1, 200, &n, &e);
        request_cookie(&r, "sluice_session");
    }
    char *body = malloc(size + 1);
    if (!body)
        abort();
    memcpy(body, data, size);
    body[size] = '\0';
    r.body = body;
    r.body_len = size;
    cJSON *o = request_json(&r, &e);
    if (o) {
        struct settings s;
        settings_default(&s, &text);
        if (!asks_tokens(o))
            settings_read(&s, o, &text, r.arena, &e);
        chat_check_messages(cJSON_GetObjectItemCaseSensitive(o, "messages"), &e);
        chat_check_tools(cJSON_GetObjectItemCaseSensitive(o, "tools"), &e);
    }
    cJSON_Delete(r.json);
    request_fini(&r);
    free(body);
    free(uri);
    free(cookie);
    return 0;
}
