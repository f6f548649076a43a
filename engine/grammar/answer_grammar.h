/* The whole of an answer as a model of some format writes it: reasoning, then content or tool
 * calls, such that the answer parser (engine/chat/chat_parser.h) reads back exactly what was asked
 * for. Reasoning is free text that ends. Pure. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine/grammar/builder.h"
#include "engine/grammar/json_schema.h"
#include "engine/tokenizer/vocab.h"

struct call_tool {
    const char *name;
    const cJSON *parameters; /* NULL: none */
    bool strict; /* the arguments follow the schema or the request is refused; else they follow it
                    where it can be enforced, and are any JSON object where not */
    int index;   /* in the request's list, for errors */
};

enum tool_choice { TOOL_CHOICE_NONE, TOOL_CHOICE_AUTO, TOOL_CHOICE_REQUIRED };

struct answer_shape {
    const char *format;        /* chat_traits.format; NULL: raw text, no reasoning, no calls */
    const struct vocab *vocab; /* which tags are control tokens */
    bool opens_reasoning;      /* the prompt ended inside the reasoning */
    bool may_reason;           /* the answer may begin with reasoning of its own */
    const struct call_tool *tools;
    size_t n_tools;
    enum tool_choice calls;
    bool one_call;
    expr content; /* what the content must be; -1: free text */
};

/* -1: *e; its field is "tools" with the index where a tool is at fault. ERR_UNSUPPORTED: calls in a
 * format that has none. */
expr answer_grammar(struct builder *b, struct json_schema *s, const struct answer_shape *a,
                    struct err *e);
