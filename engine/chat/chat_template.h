/* A model's own Jinja chat template: messages in, prompt text out, with the parts marked that came
 * from outside, so that the tokenizer recognises special tokens only in what the template itself
 * wrote.
 *
 * Compiled once, immutable, rendered from many threads. Rendering is sandboxed: bounded steps,
 * memory, depth. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/jinja/rendered.h"

struct chat_template;

struct chat_template *chat_template_compile(const char *source, size_t len, const char *bos_token,
                                            const char *eos_token, struct err *e);
void chat_template_destroy(struct chat_template **t);

struct chat_input {
    const cJSON *messages; /* array, OpenAI's shape; see chat_messages_normalize */
    const cJSON *tools;    /* array or NULL */
    const cJSON *kwargs;   /* object of extra variables (enable_thinking ...) or NULL */
    bool add_generation_prompt;
    int64_t now; /* Unix seconds, for strftime_now; 0: the clock */
};

/* ERR_INPUT: the template refused (raise_exception: its text is passed on, field is "messages") or
 * failed on this input (no field); ERR_LIMIT: over its bounds. On failure `out` is empty. */
bool chat_template_render(const struct chat_template *t, const struct chat_input *in,
                          struct rendered *out, struct err *e);

/* Brings messages into the form that templates expect, in place on the caller's tree: argument
 * strings of tool calls parsed into objects, null content to "", text parts joined, `developer` to
 * `system`, reasoning_content also as `thinking` / `reasoning`. */
bool chat_messages_normalize(const struct chat_template *t, cJSON *messages, struct err *e);

/* For a template that shows no tools (chat_traits.tools is false): describes them in the system
 * message (where it takes none, in the user's first), and turns earlier calls and their results
 * into text, all as the format "hermes" has it, in place on normalised messages. Render without
 * tools afterwards; an answer to tools is one in hermes. tools NULL: only what the template would
 * not show of earlier calls becomes text. */
bool chat_messages_generic_tools(const struct chat_template *t, cJSON *messages, const cJSON *tools,
                                 struct err *e);
#define CHAT_GENERIC_TOOLS_FORMAT "hermes"

struct chat_traits { /* read off the template by probing renders */
    const char
        *format;      /* output format's name for chat_parser: "hermes", "harmony", ..., "plain" */
    bool tools;       /* it shows tools to the model */
    bool system_role; /* it takes a system message */
    bool thinking;    /* answers may hold reasoning */
    bool thinking_switch; /* obeys enable_thinking */
    bool effort;          /* obeys reasoning_effort */
    bool verbosity;       /* obeys verbosity */
    bool opens_reasoning; /* the generation prompt ends inside an open reasoning block (default
                             kwargs) */
};
const struct chat_traits *chat_template_traits(const struct chat_template *t);
/* Does this very prompt end inside an open reasoning block? */
bool chat_prompt_opens_reasoning(const struct chat_template *t, const char *rendered, size_t len);

/* The template's source and the tokens that it was compiled with; NULL: none. They live as long as
 * the template. */
const char *chat_template_source(const struct chat_template *t);
const char *chat_template_bos(const struct chat_template *t);
const char *chat_template_eos(const struct chat_template *t);
