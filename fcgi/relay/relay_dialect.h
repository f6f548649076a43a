/* How an upstream is spoken to: one table and one file for each API. A dialect turns a chat in
 * OpenAI's form into its own request, and the lines of its stream into what they say. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "fcgi/relay/relay_answer.h"

struct relay_dialect {
    const char *name;
    const char *path;        /* of a chat, behind the base URL */
    const char *text_path;   /* of a text to go on with; NULL: it has none */
    const char *models_path; /* what a probe asks */
    const char *key_header;  /* "Authorization: Bearer ", "x-api-key: " */
    const char *header;      /* one more of each request, or NULL */
    /* The body for the model that is called `remote` there. ERR_UNSUPPORTED names a field that
     * this API has no place for. */
    bool (*put_request)(struct buf *out, const cJSON *chat, const char *remote, struct err *e);
    /* In its place where the chat is sent as it is: the beginning of a body whose end is the chat's
     * text without its first brace. */
    void (*put_begin)(struct buf *out, const char *remote);
    /* One object of the stream. ERR_FORMAT: rubbish. *over: nothing more comes. */
    bool (*take)(struct relay_answer *a, const cJSON *o, bool *over, struct err *e);
    bool lines; /* one JSON object a line, else server-sent events */
};

extern const struct relay_dialect relay_openai, relay_anthropic, relay_ollama;
/* NULL: there is none of that name. */
const struct relay_dialect *relay_dialect_find(const char *name);
/* What only OpenAI's API has a place for: false, with the field that the chat asks for. */
bool relay_dialect_foreign(const cJSON *chat, struct err *e);
