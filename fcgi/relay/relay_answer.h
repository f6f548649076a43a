/* What an upstream's answer becomes: the events of a job. A dialect (relay_dialect.h) says what
 * came; here it is counted, marked (CHAT_RELAYED_FORMAT) and encoded. One thread owns it. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/engine.h"

#define RELAY_MAX_CALLS 64
#define RELAY_MOST_TOKENS (1 << 20)

struct relay_answer { /* zeroed = empty; owner calls relay_answer_fini */
    uint64_t job;
    struct buf *events; /* frames are appended here */
    struct buf text;    /* marked, since the last flush */
    int mark;           /* the mark in force; 0: none yet */
    int32_t fresh;      /* tokens since the last flush, as far as is known: pieces */
    int32_t counted;
    int call; /* whose arguments are being written; -1: none */
    int n_calls;
    struct buf *waiting[RELAY_MAX_CALLS]; /* arguments of calls that are not yet their turn */
    struct buf names[RELAY_MAX_CALLS];
    bool begun[RELAY_MAX_CALLS];
    bool has_arguments;        /* of the call being written: something */
    bool any;                  /* something was given out: no other upstream can take over */
    double asked_ms, first_ms; /* clock_ms */
    double last_ms;
    bool finished, has_usage;
    enum engine_finish finish;
    int64_t prompt_tokens, cached_tokens, completion_tokens;
    int64_t most_prompt, most_tokens; /* no figure of the upstream's above them counts; 0: not said,
                                         RELAY_MOST_TOKENS */
    struct err failed;                /* the upstream's own error in its stream */
    bool wants_logprobs, had_logprobs;
    bool lacks_logprobs; /* a text came without them, and none had come before */
};

void relay_answer_text(struct relay_answer *a, bool reasoning, const char *text, size_t len);
/* A piece of a call. name NULL: known already; arguments may be empty. Calls that come mixed are
 * given out one after the other. */
void relay_answer_call(struct relay_answer *a, int64_t index, const char *name,
                       const char *arguments, size_t len);
/* The log probabilities of the text that comes next: a list as OpenAI's logprobs.content. */
void relay_answer_logprobs(struct relay_answer *a, const cJSON *items);
void relay_answer_progress(struct relay_answer *a, int64_t done, int64_t total, int64_t cached);
/* A member as a figure, at most 1e9; -1: it is not there, or none. */
int64_t relay_answer_figure(const cJSON *o, const char *name);
/* Figures below 0 are not known. What is charged is bounded at the answer's end: an upstream may
 * say anything. */
void relay_answer_usage(struct relay_answer *a, int64_t prompt, int64_t cached, int64_t completion);
void relay_answer_finish(struct relay_answer *a, enum engine_finish finish);
/* Encodes what came since the last flush as one event. */
void relay_answer_flush(struct relay_answer *a);
/* The last event. estimate: tokens of the prompt where the upstream tells none. The figures are
 * then what is charged. */
void relay_answer_done(struct relay_answer *a, int64_t estimate);
void relay_answer_fail(struct relay_answer *a, const struct err *why);
/* Forgets an attempt that gave nothing. */
void relay_answer_again(struct relay_answer *a);
void relay_answer_fini(struct relay_answer *a);
