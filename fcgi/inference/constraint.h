/* What a request asks of its answer's form, and the grammar that the engine gets for it:
 * response_format, grammar, tool_choice, strict tools. Every endpoint that constrains comes through
 * here. Thread: the request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/grammar/answer_grammar.h"
#include "engine/text/text_model.h"

struct prompt;
struct request;

struct constraint { /* zeroed: free text; pointers lie in the request's body, but for `parsed` */
    const cJSON *schema;      /* the content's schema, or NULL */
    bool json_object, strict; /* any JSON object; OpenAI's strict rules for the schema */
    const char *gbnf;         /* the content's grammar, or NULL */
    const char *regex;        /* what the whole content matches, or NULL */
    const cJSON *choice;      /* texts of which the content is one, or NULL */
    cJSON *parsed;            /* the schema where it came as a string; owned: constraint_fini */
    const char
        *field; /* where the content's form stands in the request, for errors; NULL: it is free */
    enum tool_choice calls; /* TOOL_CHOICE_AUTO where tools are there and nothing was said */
    const char *named;      /* the one function that may be called, or NULL */
    const cJSON *allowed;   /* [{type, function: {name}}] those that may be called, or NULL: all */
};

/* response_format, llama.cpp's grammar and json_schema, vLLM's structured_outputs and guided_*,
 * SGLang's regex and ebnf. */
bool constraint_read_format(struct constraint *c, struct request *r, const cJSON *body,
                            struct err *e);
/* The names of these fields but for response_format, in order; NULL past the end. */
const char *constraint_field(int i);
void constraint_fini(struct constraint *c);
/* tool_choice, over checked tools (NULL: none). *none: no tool shall be shown or called. */
bool constraint_read_choice(struct constraint *c, const cJSON *body, const cJSON *tools, bool *none,
                            struct err *e);

struct constraint_place { /* where the answer stands */
    const struct text_model *model;
    const struct prompt *prompt; /* NULL: raw text, without reasoning and calls */
    const cJSON *tools;          /* checked ones, or NULL */
    bool one_call;               /* at most */
};
/* Appends the program for the engine to out; nothing when the answer is free. ERR_INPUT and
 * ERR_UNSUPPORTED name the field and the place in it. */
bool constraint_compile(const struct constraint *c, const struct constraint_place *p,
                        struct buf *out, struct err *e);
