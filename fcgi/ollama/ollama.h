/* Ollama's API (/api/chat, generate, tags, show, ps, version, pull), as its clients speak it. A
 * chat and a generation are turned into a chat's own request; answers are single objects, or a
 * stream of them by lines (NDJSON). Thread: the request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/tokenizer/tokenizer.h"
#include "fcgi/http/dialect.h"
#include "fcgi/inference/answer_stream.h"
#include "fcgi/openai/chat_build.h"
#include "fcgi/openai/chat_job.h"
#include "fcgi/openai/chat_request.h"

struct request;
struct store_model;

/* Of Ollama's API as it is done here: what /api/version says, since clients ask for it before they
 * use a feature. */
#define OLLAMA_VERSION "0.12.11"

/* {"error": "text"} */
void ollama_error(struct buf *out, const struct request *r, const struct err *e);
extern const struct api_dialect ollama_dialect;
/* Members of each row's doc. */
#define OLLAMA_FORM .error = "OllamaError", .any_type = true

/* The model that `body` names ("model", or "name" as older clients have it) is the served one, or
 * none is named. Else 404 in the words that clients look for. */
bool ollama_model(struct request *r, const cJSON *body, struct err *e);
/* The name's member; NULL: there is none. False: it is no string. */
bool ollama_name(const cJSON *body, const char **name, struct err *e);

#define OLLAMA_TIME_BYTES 40
/* Unix milliseconds as "2026-01-31T12:00:00.000Z". */
void ollama_time(char out[OLLAMA_TIME_BYTES], int64_t wall_ms);

/* What chat and generate both know. */
/* clang-format off */
#define FIELD_ROWS_OF_OLLAMA \
    {"model", FIELD_READ}, {"format", FIELD_READ}, {"options", FIELD_READ}, \
    {"stream", FIELD_READ}, {"think", FIELD_READ}, {"logprobs", FIELD_READ}, \
    {"top_logprobs", FIELD_READ}, {"keep_alive", FIELD_INERT}, {"truncate", FIELD_INERT}, \
    {"shift", FIELD_INERT}
/* clang-format on */

struct ollama_request {
    struct chat_request chat;
    bool generates;  /* /api/generate: the answer is a text, not a message */
    bool nothing;    /* no message and no prompt: is the model loaded? */
    const char *raw; /* a prompt that no template renders, or NULL */
    struct ids ids;  /* of raw; owned */
};

/* The bodies of /api/chat and /api/generate; ollama_request_fini in any case. */
bool ollama_read_chat(struct ollama_request *o, struct request *r, struct err *e);
bool ollama_read_generate(struct ollama_request *o, struct request *r, struct err *e);
void ollama_request_fini(struct ollama_request *o);
/* After an error of chat's readers: the field as this request names it. Always false. */
bool ollama_rename(const struct ollama_request *o, struct err *e);

/* `messages` (a list that is not empty) turned into b's. Errors name the place, such as
 * messages[2].content. */
bool ollama_add_messages(struct chat_build *b, struct request *r, const cJSON *messages,
                         struct err *e);
struct ollama_images {
    const cJSON *list; /* as the request has it, or NULL */
    const char *field; /* its name, for errors */
    bool alone;        /* nothing else is asked */
};
/* The model can't see images: each becomes a text in the message, and the field is named as
 * ignored. */
bool ollama_add_images(struct chat_build *b, struct request *r, cJSON *message,
                       const struct ollama_images *images, struct err *e);
/* `options`: sampling and limits by Ollama's names. */
bool ollama_read_options(struct chat_request *c, struct request *r, const cJSON *body,
                         struct err *e);

struct ollama_view {             /* both forms */
    struct answer_stream stream; /* `line` holds the whole form too */
    const struct ollama_request *o;
    struct buf logprobs;
    int n_calls; /* that were shown */
};
struct answer_view ollama_view(struct ollama_view *v, struct request *r,
                               const struct ollama_request *o, const struct inference *x);
void ollama_view_fini(struct ollama_view *v);
/* What is answered where nothing was asked: the model is loaded. */
bool ollama_say_loaded(struct request *r, const struct ollama_request *o);

struct status_page;

/* The served model as /api/tags lists it: {name, model, modified_at, size, digest, details}. The
 * caller owns it. */
cJSON *ollama_facts_entry(const struct request *r, const struct status_page *page);
/* A name with a tag, as Ollama's clients know names. */
void ollama_facts_name(char *out, size_t size, const char *name);
/* What /api/show says of it. The caller owns it. */
cJSON *ollama_facts_show(const struct request *r, const struct status_page *page);
/* The same of a model that another server answers. */
cJSON *ollama_facts_relayed(const struct store_model *m);
