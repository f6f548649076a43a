/* Rules that forbid tokens whatever their logits: those that would end the answer before
 * min_tokens, those outside allowed_ids, and the last token of a banned sequence that the answer
 * would complete. Loop thread only. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/engine.h"

struct token_rules {                        /* zeroed: none */
    const struct engine_job_params *params; /* NULL: no rules; lives as long as these */
    const int32_t *eos;
    int32_t n_eos;         /* 0 if the job ignores them */
    uint32_t *allowed;     /* [n_vocab / 32] bits, or NULL: all */
    const int32_t *answer; /* [n_answer] drawn so far; set before each step */
    int32_t n_answer;
};

struct token_rules_vocab {
    const int32_t *eos; /* [n_eos] */
    int32_t n_eos, n_vocab;
};

/* ERR_INPUT: an id outside the vocabulary. What params point to is not copied. */
bool token_rules_init(struct token_rules *t, const struct engine_job_params *params,
                      const struct token_rules_vocab *vocab, struct err *e);
void token_rules_fini(struct token_rules *t); /* accepts a zeroed struct */
void token_rules_set_answer(struct token_rules *t, const int32_t *answer, int32_t n_answer);
/* True if a rule may forbid something for the next token. */
bool token_rules_active(const struct token_rules *t);
/* Sets forbidden logits to minus infinity. */
void token_rules_apply(const struct token_rules *t, float *logits, int32_t n_vocab);
/* The token itself if it is allowed, otherwise the first allowed one. It is needed where no allowed
 * token has a finite logit. */
int32_t token_rules_nearest(const struct token_rules *t, int32_t id, int32_t n_vocab);
/* True if the id is one of stop_ids. */
bool token_rules_stops(const struct engine_job_params *params, int32_t id);
