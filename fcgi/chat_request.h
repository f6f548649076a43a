/* The body of POST /v1/chat/completions, checked: each documented field is obeyed, inert by its nature, or refused with
 * its name; an unknown field is refused too. Thread: the request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/err.h"
#include "fcgi/constraint.h"
#include "fcgi/settings.h"

struct request;

struct chat_request { /* pointers lie in the request's body tree or arena */
    const char *source; /* the field that holds the conversation, for errors: "messages", "input" */
    cJSON *messages;
    const cJSON *tools; /* NULL: none, or tool_choice "none" */
    cJSON *kwargs;      /* the template's variables or NULL; owned: chat_request_fini */
    cJSON *owned;       /* what another endpoint's body was turned into, or NULL; owned */
    struct settings settings;
    struct constraint constraint;
    struct buf grammar; /* the compiled constraint; owned */
    bool stream, include_usage, progress, one_call, ignore_eos;
    int n;            /* choices */
    int top_logprobs; /* -1: none */
    const char *salt; /* cache_salt, "" for none */
};

/* The defaults of an endpoint whose conversation is in the field `source`. */
void chat_request_init(struct chat_request *c, const struct request *r, const char *source);
bool chat_request_read(struct chat_request *c, struct request *r, struct err *e);
void chat_request_fini(struct chat_request *c);

/* tools, tool_choice, parallel_tool_calls, response_format and grammar of a body in this endpoint's form. */
bool chat_read_output(struct chat_request *c, struct request *r, const cJSON *body, struct err *e);
/* chat_template_kwargs, reasoning_effort and enable_thinking. */
bool chat_read_thinking(struct chat_request *c, const struct request *r, const cJSON *body, struct err *e);
/* Each tells the template, or is refused under the name `field` where the template does not obey. */
bool chat_set_effort(struct chat_request *c, const struct request *r, const char *effort, const char *field,
                     struct err *e);
bool chat_set_thinking(struct chat_request *c, const struct request *r, bool on, const char *field, struct err *e);

/* The shapes of messages and tools; errors name the part, such as "messages[2].content[0].type". */
bool chat_check_messages(const cJSON *messages, struct err *e);
bool chat_check_tools(const cJSON *tools, struct err *e);

/* Fields that both completions endpoints know. */
enum field_kind {
    FIELD_READ,    /* obeyed */
    FIELD_INERT,   /* taken, changes nothing here by its nature */
    FIELD_REFUSED, /* documented by OpenAI, not done here: refused unless null */
};
struct field_row {
    const char *name;
    enum field_kind kind;
};
/* How tokens are chosen: what inference.h reads, in every endpoint alike. */
#define FIELD_ROWS_OF_SAMPLING                                                                             \
    {"temperature", FIELD_READ}, {"top_p", FIELD_READ}, {"top_k", FIELD_READ}, {"min_p", FIELD_READ},      \
        {"repetition_penalty", FIELD_READ}, {"presence_penalty", FIELD_READ},                              \
        {"frequency_penalty", FIELD_READ}, {"seed", FIELD_READ}, {"stop", FIELD_READ},                     \
        {"experts_per_token", FIELD_READ}
/* Refuses unknown fields and those of kind FIELD_REFUSED. */
bool fields_check(struct request *r, const cJSON *body, const struct field_row *rows, struct err *e);
/* "model" names this server's model, or nothing: else 404 model_not_found. */
bool field_model(struct request *r, const cJSON *body, struct err *e);
/* stream and stream_options. */
bool field_stream(const cJSON *body, bool *stream, bool *include_usage, struct err *e);
/* The prompt cache's scope: the user's own, and apart for each salt. */
void scope_name(char *out, size_t size, const struct request *r, const char *salt);
