/* Scores a prompt's tokens while it is read. A job's n_scored counts the rows whose scores were
 * sent, so that a preempted job, which reads its prompt again, sends nothing twice. */
#include "engine/sched/prompt_scores.h"

#include "engine/sched/scheduler_state.h"

bool prompt_scores_wanted(const struct job *j)
{
    return j->params.prompt_scores && j->n_scored < j->params.n_prompt - 1;
}

int32_t prompt_scores_rows(const struct job *j, int32_t n_tokens)
{
    const int32_t end = j->n_computed + n_tokens;
    if (!prompt_scores_wanted(j) || end <= j->n_scored)
        return 0;
    return end - (j->n_scored > j->n_computed ? j->n_scored : j->n_computed);
}

/* Tokens that are likelier, and one: 1 is the likeliest. */
static int32_t rank_of(const float *logits, int32_t n_vocab, float logit)
{
    int32_t rank = 1;
    for (int32_t i = 0; i < n_vocab; i++)
        rank += logits[i] > logit;
    return rank;
}

/* Fills the score of the token out->id, and its out->n_top likeliest alternatives. */
static void score(const struct step_row *row, int32_t n_vocab, struct engine_token *out)
{
    out->logprob = sampler_logprob(row->logits[out->id], row->log_sum_exp);
    out->rank = rank_of(row->logits, n_vocab, row->logits[out->id]);
    for (int32_t i = 0; i < out->n_top; i++) {
        out->top[i].id = row->top_ids[i];
        out->top[i].logprob = sampler_logprob(row->top_logits[i], row->log_sum_exp);
    }
}

void prompt_scores_take(struct scheduler *s, struct job *j, const struct step_sequence *q,
                        const struct step_row *rows, int32_t n_top)
{
    struct engine_token tokens[PROMPT_SCORE_ROWS];
    struct engine_event ev = {.type = ENGINE_PROMPT_SCORES, .job = j->id, .tokens = tokens};
    const int32_t first = q->start + q->n_tokens - q->n_out, wanted = j->params.prompt_scores - 1;
    if (!prompt_scores_wanted(j))
        return;
    ev.done = first + 1;
    for (int32_t i = 0; i < q->n_out && first + i + 1 < j->params.n_prompt; i++) {
        struct engine_token *token = &tokens[ev.n_tokens++];
        *token = (struct engine_token){.id = j->tokens[first + i + 1],
                                       .n_top = wanted < n_top ? wanted : n_top};
        score(&rows[i], s->params.n_vocab, token);
    }
    j->n_scored = first + q->n_out;
    struct err e = {0};
    if (ev.n_tokens && !scheduler_emit(s, j, &ev)) {
        err_set(&e, ERR_LIMIT, "the prompt's scores are not read: more than %zu MiB are waiting",
                j->log.limit >> 20);
        scheduler_fail_job(s, j, &e);
    }
}
