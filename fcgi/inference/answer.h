/* An answer in a conversation: how its row says what the engine's text means, and what of a generation goes into the
 * row. Shared by the handlers, which stream it to the page, and the recorder, which writes it down.
 *
 * The row keeps, as JSON, all that is needed to read the model's text (format, open reasoning, tools), so that the
 * recorder and a stream taken up later need neither the model nor the request. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "fcgi/inference/generation.h"
#include "sql/chats/store_conversations.h"
#include "sql/chats/store_record.h"

struct answer_parser {
    const char *format;
    bool opens_reasoning;
    const cJSON *tools;  /* or NULL */
    const cJSON *kwargs; /* the template's variables with which the prompt was made, or NULL */
    bool constrained;    /* a grammar held it */
    /* of an answer that is gone on with */
    const char *prefix;  /* the model's text so far; NULL: a new answer */
    size_t prefix_len;
    int earlier_tokens;
    double earlier_reasoning_ms;
    int64_t began_at;    /* Unix ms */
};
/* JSON for store_post.parser. False: no memory. */
bool answer_parser_json(struct buf *out, const struct answer_parser *p);
/* Begins a generation as a row's parser says. *tree owns what the generation points at: cJSON_Delete it after
 * generation_fini. parser NULL: plain text. */
bool answer_begin(struct generation *g, cJSON **tree, const char *parser, generation_delta_fn on_delta,
                  void *context, struct err *e);

struct answer_texts { /* what the row's pointers point at; zeroed = empty */
    struct buf timings, calls;
};
/* The generation as a row. The row borrows from g and t. False: no memory. */
bool answer_row(const struct generation *g, int64_t id, struct answer_texts *t, struct store_answer *row,
                struct err *e);
void answer_texts_fini(struct answer_texts *t);

/* A message as the page sees it (docs/API-pages.md). blank: without text, for a stream that sends it anew. */
void answer_message_json(struct buf *out, const struct store_message *m, bool blank);
/* The same, for each row of a list: context is the struct buf, which holds the list from its "[" on. */
bool answer_list_item(void *context, const struct store_message *m);
