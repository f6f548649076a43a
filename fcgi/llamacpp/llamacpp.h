/* llama.cpp's own form of completions: POST /completion, /completions and /infill. What the request
 * says is turned into what POST /v1/completions asks of the engine (completions.h); the answer has
 * llama.cpp's members. Thread: the request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "fcgi/http/dialect.h"
#include "fcgi/inference/answer_stream.h"
#include "fcgi/inference/answer_view.h"
#include "fcgi/inference/inference.h"
#include "fcgi/inference/settings.h"
#include "fcgi/openai/completions.h"

struct request;

/* The fields of its own that /completion and /infill share. */
/* clang-format off */
#define FIELD_ROWS_OF_LLAMACPP \
    {"prompt", FIELD_READ}, {"model", FIELD_READ}, {"stream", FIELD_READ}, {"stop", FIELD_READ}, \
    {"max_tokens", FIELD_READ}, {"n_cmpl", FIELD_READ}, {"n", FIELD_READ}, \
    {"n_probs", FIELD_READ}, {"return_tokens", FIELD_READ}, {"return_progress", FIELD_READ}, \
    {"response_fields", FIELD_READ}, {"response_format", FIELD_READ}, {"cache_salt", FIELD_READ}
/* clang-format on */

#define LLAMACPP_MAX_FIELDS 64 /* of response_fields */

struct llamacpp_request {
    struct completions_request text; /* prompts, settings, grammar: what the engine is asked */
    bool return_tokens, progress;
    const cJSON *fields; /* response_fields, or NULL: all */
    const char *grammar; /* as it was sent, "" for none */
};
bool llamacpp_read(struct llamacpp_request *q, struct request *r, struct err *e);
/* The same for POST /infill: prefix, suffix and other files around what is to be filled in. 501
 * where the model's vocabulary has no tokens for that. */
bool llamacpp_read_infill(struct llamacpp_request *q, struct request *r, struct err *e);
void llamacpp_request_fini(struct llamacpp_request *q);

/* The prompt of an /infill body, appended to out. */
bool llamacpp_infill_prompt(struct request *r, const cJSON *body, struct ids *out, struct err *e);

/* {"n_predict":...,"temperature":...  (no closing brace): the settings of generation_settings and
 * of /props. */
void llamacpp_settings(struct buf *b, const struct settings *s);

struct llamacpp_choice {
    struct buf tokens, probabilities; /* of a stream: those not sent yet; else all */
};

struct llamacpp_view { /* both forms */
    struct answer_stream stream;
    const struct llamacpp_request *q;
    int32_t n_ctx;
    struct llamacpp_choice choices[INFERENCE_MAX_CHOICES];
};
struct answer_view llamacpp_view(struct llamacpp_view *v, struct request *r,
                                 const struct llamacpp_request *q, const struct inference *x);
void llamacpp_view_fini(struct llamacpp_view *v);

extern const struct api_dialect
    llamacpp_dialect; /* as the default one, but its streams have no [DONE] */
