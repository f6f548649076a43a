/* Log probabilities of a prompt's own tokens, for jobs that ask for them
 * (engine_job_params.prompt_scores): while the prompt is read, each row's logits say how likely the
 * next token of the prompt was. Whole rows of logits are large, so a step scores PROMPT_SCORE_ROWS
 * rows at most and such a prompt is read in short parts; what the prefix cache knows is computed
 * again. Loop thread only. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define PROMPT_SCORE_ROWS                                                                          \
    64 /* of a step, over all jobs: some 40 MB of logits with a vocabulary of 150,000 */

struct job;
struct scheduler;
struct step_row;
struct step_sequence;

/* True if the job asks for scores that have not been sent yet. */
bool prompt_scores_wanted(const struct job *j);
/* Rows at the end of the job's next n_tokens that are to be scored; 0: none. */
int32_t prompt_scores_rows(const struct job *j, int32_t n_tokens);
/* After the step: gives out the scores of the sequence's rows, [q->n_out] with n_top candidates
 * each. */
void prompt_scores_take(struct scheduler *s, struct job *j, const struct step_sequence *q,
                        const struct step_row *rows, int32_t n_top);
