/* An answer as its row in the database stores it: how the row says what the engine's text means,
 * and what of a generation goes into the row. Shared by the handlers, which stream the answer to
 * the page, and the recorder, which writes it.
 *
 * The row keeps, as JSON, all that is needed to read the model's text (format, open reasoning,
 * tools), so that the recorder and a stream taken up later need neither the model nor the request.
 */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "fcgi/inference/generation.h"
#include "sql/chats/store_conversations.h"
#include "sql/chats/store_record.h"

struct stored_answer_parser {
    const char *format;
    bool opens_reasoning;
    const cJSON *tools;  /* or NULL */
    const cJSON *kwargs; /* the template's variables with which the prompt was made, or NULL */
    bool constrained;    /* a grammar held it */
    int prompt_estimate; /* another server answers: tokens that were spent for the prompt */
    /* Of an answer that resumes an earlier one. */
    const char *prefix; /* the model's text so far; NULL: a new answer */
    size_t prefix_len;
    int earlier_tokens;
    double earlier_reasoning_ms;
    int64_t began_at; /* Unix ms */
};
/* JSON for store_post.parser. False: no memory. */
bool stored_answer_parser_json(struct buf *out, const struct stored_answer_parser *p);
/* Begins a generation as a row's parser says (NULL: plain text), with on_delta and context of
 * `listener` (NULL: none). *tree owns what the generation points at: cJSON_Delete it after
 * generation_fini. */
bool stored_answer_begin(struct generation *g, cJSON **tree, const char *parser,
                         const struct generation_params *listener, struct err *e);

struct stored_answer_texts { /* what the row's pointers point at; zeroed = empty */
    struct buf timings, calls, error_detail;
};
/* The generation as a row. The row borrows from g and t. False: no memory. */
bool stored_answer_row(const struct generation *g, int64_t id, struct stored_answer_texts *t,
                       struct store_answer *row, struct err *e);
void stored_answer_texts_fini(struct stored_answer_texts *t);
