/* Turns messages into the prompt's token ids: normalises them, renders the model's template and
 * tokenizes the result. Special tokens are recognised only in text that the template itself wrote.
 * Shared by the OpenAI API and by conversations. Thread-safe over one text model; a struct prompt
 * belongs to one thread. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/err.h"
#include "engine/engine.h"
#include "engine/text/text_model.h"

struct request;

struct prompt_input {
    cJSON *messages;     /* array; changed in place by chat_messages_normalize */
    const cJSON *tools;  /* array or NULL */
    const cJSON *kwargs; /* template variables (enable_thinking ...), or NULL */
    bool generic_tools; /* prompt_generic_tools: a template without tools is shown them all the same
                         */
    bool no_generation_prompt; /* apply-template only: do not open the assistant's turn */
};

struct prompt { /* owner calls prompt_fini; zeroed = empty */
    struct rendered rendered;
    struct ids ids;
    bool opens_reasoning; /* for the chat parser */
    const char *format;   /* of the template, for the chat parser */
};

/* ERR_INPUT: messages that the template refuses (its own words); ERR_UNSUPPORTED: the model has no
 * chat template. */
bool prompt_make(const struct text_model *m, const struct prompt_input *in, struct prompt *out,
                 struct err *e);
/* May tools be shown to a model whose template shows none? The server's setting
 * generic_tool_prompt. */
bool prompt_generic_tools(const struct request *r);
/* Can requests bring tools: by the template, or by the generic prompt? */
bool prompt_takes_tools(const struct request *r);
/* Must the engine spell out special tokens for this format's parser? */
bool prompt_wants_special_text(const struct prompt *p);
/* Tells the engine which part of the answer is reasoning: there it looks for no stop strings. */
void prompt_tell_answer(const struct prompt *p, struct engine_job_params *job);
void prompt_fini(struct prompt *p);
