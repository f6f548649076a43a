/* The body of POST /v1/chat/completions, checked: a field is obeyed, or named as ignored in the
 * answer (ignored.h). Wrong types and values outside their range are refused with the field's name.
 * Thread: the request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/err.h"
#include "fcgi/inference/constraint.h"
#include "fcgi/inference/settings.h"

struct request;

struct stream_options {
    bool stream;
    bool include_usage;    /* a last chunk with the usage; the other chunks say "usage": null */
    bool continuous_usage; /* vLLM's: every chunk has the usage so far */
};

struct chat_request {   /* pointers lie in the request's body tree or arena */
    const char *source; /* the field that holds the conversation, for errors: "messages", "input" */
    cJSON *messages;
    const cJSON *tools; /* NULL: none, or tool_choice "none" */
    cJSON *kwargs;      /* the template's variables or NULL; owned: chat_request_fini */
    cJSON *owned;       /* what another endpoint's body was turned into, or NULL; owned */
    struct settings settings;
    struct constraint constraint;
    struct buf grammar; /* the compiled constraint; owned */
    struct buf relay;   /* what is sent on where another server answers; owned */
    const cJSON *given; /* what the client said of settings; read where another server answers */
    struct stream_options streaming;
    bool progress, one_call;
    int n;                     /* choices */
    int top_logprobs;          /* -1: none */
    int prompt_logprobs;       /* vLLM's, of the prompt's tokens; -1: none */
    const char *salt;          /* cache_salt, "" for none */
    const char *cache_key;     /* prompt_cache_key: labels what is kept on disk; NULL: none */
    const int32_t *prediction; /* [n_prediction] tokens that the answer is expected to have */
    int32_t n_prediction;
    int64_t keep_seconds; /* engine_job_params.cache_keep_seconds */
    bool cache_marked;    /* Anthropic's cache_control stands somewhere */
};

/* The defaults of an endpoint whose conversation is in the field `source`. */
void chat_request_init(struct chat_request *c, const struct request *r, const char *source);
/* "model", of this server or another (r->model), and the defaults that hold for it. */
bool chat_request_model(struct chat_request *c, struct request *r, const cJSON *body,
                        struct err *e);
/* settings_read for the model that answers. */
bool chat_request_settings(struct chat_request *c, struct request *r, const cJSON *o,
                           struct err *e);
bool chat_request_read(struct chat_request *c, struct request *r, struct err *e);
void chat_request_fini(struct chat_request *c);

/* tools, tool_choice, parallel_tool_calls, response_format and grammar of a body in this endpoint's
 * form. */
bool chat_read_output(struct chat_request *c, struct request *r, const cJSON *body, struct err *e);
/* chat_template_kwargs, reasoning_effort, thinking, think and enable_thinking. */
bool chat_read_thinking(struct chat_request *c, struct request *r, const cJSON *body,
                        struct err *e);
/* cache_salt, prompt_cache_key and prompt_cache_retention. */
bool chat_read_cache(struct chat_request *c, const cJSON *body, struct err *e);
/* prediction */
bool chat_read_prediction(struct chat_request *c, struct request *r, const cJSON *body,
                          struct err *e);
/* The object `reasoning` of OpenAI's responses and OpenRouter's chats (NULL: none): effort,
 * enabled. */
bool chat_read_reasoning(struct chat_request *c, struct request *r, const cJSON *reasoning,
                         struct err *e);
/* Each tells the template what `field` asks for: as it is, as the nearest thing that the template
 * knows (the answer says so), or it is ignored by name. ERR_INPUT: no such level. */
bool chat_set_effort(struct chat_request *c, struct request *r, const char *effort,
                     const char *field, struct err *e);
bool chat_set_thinking(struct chat_request *c, struct request *r, bool on, const char *field,
                       struct err *e);
bool chat_set_verbosity(struct chat_request *c, struct request *r, const char *verbosity,
                        const char *field, struct err *e);

/* For what the server itself asks: no thinking, or as little as the model knows and some more
 * max_tokens for it. */
bool chat_think_least(struct chat_request *c, struct request *r, struct err *e);

/* The shapes of messages and tools; errors name the part, such as "messages[2].content[0].type". */
bool chat_check_messages(const cJSON *messages, struct err *e);
bool chat_check_tools(const cJSON *tools, struct err *e);

/* Fields that both completions endpoints know. */
enum field_kind {
    FIELD_READ,  /* obeyed */
    FIELD_INERT, /* of the endpoint's own form, without effect here: named in the answer, never
                    refused */
};
struct field_row {
    const char *name;
    enum field_kind kind;
};
/* How tokens are chosen: settings_names, in every endpoint alike. */
/* clang-format off */
#define FIELD_ROWS_OF_SAMPLING \
    {"temperature", FIELD_READ}, {"top_p", FIELD_READ}, {"top_k", FIELD_READ}, \
    {"min_p", FIELD_READ}, {"typical_p", FIELD_READ}, {"repetition_penalty", FIELD_READ}, \
    {"repeat_penalty", FIELD_READ}, {"repeat_last_n", FIELD_READ}, \
    {"presence_penalty", FIELD_READ}, {"frequency_penalty", FIELD_READ}, {"seed", FIELD_READ}, \
    {"random_seed", FIELD_READ}, {"logit_bias", FIELD_READ}, {"experts_per_token", FIELD_READ}, \
    {"speculate", FIELD_READ}, \
    {"min_tokens", FIELD_READ}, {"ignore_eos", FIELD_READ}, {"stop_token_ids", FIELD_READ}, \
    {"allowed_token_ids", FIELD_READ}, {"bad_words", FIELD_READ}, \
    {"include_stop_str_in_output", FIELD_READ}, {"no_stop_trim", FIELD_READ}, \
    {"skip_special_tokens", FIELD_READ}
/* clang-format on */
/* How long the answer may be, as llama.cpp and Ollama say it. */
/* clang-format off */
#define FIELD_ROWS_OF_LENGTH \
    {"n_predict", FIELD_READ}, {"num_predict", FIELD_READ}
/* clang-format on */
/* The content's form, as llama.cpp, SGLang and vLLM name it: what constraint.h reads. */
/* clang-format off */
#define FIELD_ROWS_OF_FORMS \
    {"grammar", FIELD_READ}, {"json_schema", FIELD_READ}, {"regex", FIELD_READ}, \
    {"ebnf", FIELD_READ}, {"guided_json", FIELD_READ}, {"guided_regex", FIELD_READ}, \
    {"guided_choice", FIELD_READ}, {"guided_grammar", FIELD_READ}, \
    {"structured_outputs", FIELD_READ}
/* clang-format on */
/* A parameter of some server that has no effect here, and why: "ignored: ..." in the answer. */
struct foreign_field {
    const char *name, *reason;
};
/* The reason; NULL: no server that we know has such a parameter. */
const char *fields_foreign_reason(const char *name);
/* All of them in order; NULL past the end. */
const struct foreign_field *fields_foreign_at(int index);

/* request_json for the forms of other servers, where agents send what programs wrote: \u0000 and
 * halves of surrogate pairs become U+FFFD, and a warning names the first field that held one. Where
 * parameters are strict they are refused. */
cJSON *field_body(struct request *r, struct err *e);
/* For bodies in a form that clients of other servers send: what `rows` do not know is named as
 * ignored, or refused where parameters are strict. A null asks for nothing and is passed over. */
bool fields_take(struct request *r, const cJSON *body, const struct field_row *rows, struct err *e);
/* For the page's own forms: refuses unknown fields. */
bool fields_check(struct request *r, const cJSON *body, const struct field_row *rows,
                  struct err *e);
/* "model" names the model that runs here, or nothing: else 404 model_not_found, and 400 where
 * another server answers for it. */
bool field_model(struct request *r, const cJSON *body, struct err *e);
/* stream and stream_options. */
bool field_stream(struct request *r, const cJSON *body, struct stream_options *out, struct err *e);
