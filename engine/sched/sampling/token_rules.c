/* Sets the logits of forbidden tokens to minus infinity. */
#include "engine/sched/sampling/token_rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool in_vocabulary(const char *field, const int32_t *ids, int32_t n, int32_t n_vocab,
                          struct err *e)
{
    for (int32_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= n_vocab)
            return err_field(e, ERR_INPUT, field, "token %d is outside the vocabulary of %d",
                             ids[i], n_vocab);
    return true;
}

static bool has(const uint32_t *bits, int32_t id)
{
    return bits[id >> 5] >> (id & 31) & 1;
}

bool token_rules_init(struct token_rules *t, const struct engine_job_params *p,
                      const struct token_rules_vocab *vocab, struct err *e)
{
    const int32_t n_vocab = vocab->n_vocab;
    *t = (struct token_rules){0};
    if (!in_vocabulary("stop_token_ids", p->stop_ids, p->n_stop_ids, n_vocab, e) ||
        !in_vocabulary("allowed_token_ids", p->allowed_ids, p->n_allowed_ids, n_vocab, e))
        return false;
    for (int32_t i = 0; i < p->n_banned; i += 1 + p->banned[i])
        if (!in_vocabulary("bad_words", p->banned + i + 1, p->banned[i], n_vocab, e))
            return false;
    if (!p->min_tokens && !p->n_allowed_ids && !p->n_banned)
        return true;
    *t = (struct token_rules){
        .params = p, .eos = vocab->eos, .n_eos = p->ignore_eos ? 0 : vocab->n_eos};
    if (!p->n_allowed_ids)
        return true;
    t->allowed = calloc(((size_t)n_vocab + 31) / 32, sizeof *t->allowed);
    if (!t->allowed)
        return err_set(e, ERR_NOMEM, "no memory for the allowed tokens");
    for (int32_t i = 0; i < p->n_allowed_ids; i++)
        t->allowed[p->allowed_ids[i] >> 5] |= 1u << (p->allowed_ids[i] & 31);
    return true;
}

void token_rules_fini(struct token_rules *t)
{
    free(t->allowed);
    *t = (struct token_rules){0};
}

void token_rules_set_answer(struct token_rules *t, const int32_t *answer, int32_t n_answer)
{
    t->answer = answer;
    t->n_answer = n_answer;
}

bool token_rules_active(const struct token_rules *t)
{
    return t->params && (t->allowed || t->params->n_banned || t->n_answer < t->params->min_tokens);
}

static void forbid_ends(const struct token_rules *t, float *logits)
{
    for (int32_t i = 0; i < t->n_eos; i++)
        logits[t->eos[i]] = -INFINITY;
    for (int32_t i = 0; i < t->params->n_stop_ids; i++)
        logits[t->params->stop_ids[i]] = -INFINITY;
}

static void forbid_sequences(const struct token_rules *t, float *logits)
{
    const int32_t *at = t->params->banned, *end = at + t->params->n_banned;
    for (; at < end; at += 1 + at[0]) {
        const int32_t *ids = at + 1,
                      before = at[0] - 1; /* tokens before the one that completes it */
        if (before <= t->n_answer && (!before || !memcmp(ids, t->answer + t->n_answer - before,
                                                         (size_t)before * sizeof *ids)))
            logits[ids[before]] = -INFINITY;
    }
}

void token_rules_apply(const struct token_rules *t, float *logits, int32_t n_vocab)
{
    if (!t->params)
        return;
    for (int32_t i = 0; t->allowed && i < n_vocab; i++)
        if (!has(t->allowed, i))
            logits[i] = -INFINITY;
    if (t->n_answer < t->params->min_tokens)
        forbid_ends(t, logits);
    forbid_sequences(t, logits);
}

int32_t token_rules_nearest(const struct token_rules *t, int32_t id, int32_t n_vocab)
{
    if (!t->allowed || has(t->allowed, id))
        return id;
    for (int32_t i = 0; i < n_vocab; i++)
        if (has(t->allowed, i))
            return i;
    return id;
}

bool token_rules_stops(const struct engine_job_params *p, int32_t id)
{
    for (int32_t i = 0; i < p->n_stop_ids; i++)
        if (p->stop_ids[i] == id)
            return true;
    return false;
}
