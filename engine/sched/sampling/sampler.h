/* Samples one token from one row of logits. Used by the scheduler for its jobs and by `sluice
 * generate` without a server; it needs only a backend's step_row.
 *
 * Order: logits; bias; penalties; temperature 0: the greatest (equal ones: the lower id); else
 * temperature, top_k, typical_p (over what top_k left), top_p (over what is left), min_p (against
 * the greatest left), one draw. A draw depends on the seed and on how many tokens were picked
 * before, on nothing else: what runs beside a job can't change its answer.
 *
 * Where the backend's candidates decide the result exactly (greedy or top_k within BACKEND_MAX_TOP,
 * no bias, no penalty) they are used; otherwise sampler_wants_logits says that the whole row is
 * needed. Both ways give the same token. Owner: one thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/backend/backend.h"
#include "engine/base/err.h"
#include "engine/engine.h"
#include "engine/grammar/grammar.h"
#include "engine/sched/sampling/token_rules.h"

#define SAMPLER_NO_LOGPROB                                                                         \
    (-9999.0f) /* stands for minus infinity, as in OpenAI's API: JSON has none */

struct sampler;
struct sampler_workspace; /* room for one row at a time; shared by the samplers of one thread */

struct sampler_workspace *sampler_workspace_create(int32_t n_vocab, struct err *e);
void sampler_workspace_destroy(struct sampler_workspace **w);

/* Copies what it needs of *s. ERR_INPUT: a bias for an id outside the vocabulary. */
struct sampler *sampler_create(const struct engine_sampling *s, int32_t n_vocab, struct err *e);
void sampler_destroy(struct sampler **s);
/* The rules apply after penalties, and a grammar's mask overrides them. They must outlive the
 * sampler. */
void sampler_set_rules(struct sampler *s, const struct token_rules *rules);
/* The prompt, for the repetition penalty. */
void sampler_add_prompt(struct sampler *s, const int32_t *ids, int32_t n);

bool sampler_wants_logits(const struct sampler *s);
/* The number of candidates (step.n_top) that this job needs; 1 .. BACKEND_MAX_TOP. */
int32_t sampler_n_top(const struct sampler *s, int32_t top_logprobs);

struct sampler_input {
    const struct step_row *row; /* with n_top candidates, and with logits where they are wanted */
    int32_t n_top;
    int32_t top_logprobs; /* alternatives to report; -1: none */
    const struct grammar_mask
        *allowed; /* NULL: all tokens; otherwise the row must have logits. The
                     mask applies after bias and penalties, before temperature. */
};
/* Picks the next token and counts it as part of the answer. Log probabilities are those of the
 * model at temperature 1, before bias and penalties. */
void sampler_pick(struct sampler *s, struct sampler_workspace *w, const struct sampler_input *in,
                  struct engine_token *out);
/* What sampler_pick would pick from this row after `ahead` more tokens, without counting it: the
 * draw is the one that will be made then, penalties are those of now. */
void sampler_foresee(const struct sampler *s, struct sampler_workspace *w,
                     const struct sampler_input *in, int32_t ahead, struct engine_token *out);
/* logit - log_sum_exp, at least SAMPLER_NO_LOGPROB and at most 0. */
float sampler_logprob(float logit, float log_sum_exp);
