/* A backend for scheduler tests: the next token is a function of the whole history, and the history
 * is read back through the block tables, so that a wrong block, a block given away too early or a
 * missing row changes an answer or fails the step. With recurrent states the history is kept there
 * as well, and both must agree. Tiny, deterministic, no model. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/backend/backend.h"

#define FAKE_VOCAB 512
#define FAKE_EOS 3

extern const struct backend_ops fake_backend;

struct fake_faults { /* what goes wrong, at the step with this number (from 1); 0: never */
    int at_step;
    int32_t token; /* every step with this token fails, after KV and states were written; 0: none
                      does */
    enum err_code code;
};

struct backend *fake_open(int32_t n_blocks, int32_t n_states, int32_t max_rows,
                          int32_t max_sequences);
void fake_set_faults(struct backend *b, struct fake_faults f);
/* Rows of the last step, and how many sequences it had. */
int32_t fake_last_rows(const struct backend *b);
int32_t fake_last_sequences(const struct backend *b);
/* What the backend answers after these tokens: the logits [FAKE_VOCAB], and the greatest one's id.
 */
void fake_logits(const int32_t *tokens, int32_t n, float *logits);
int32_t fake_greedy(const int32_t *tokens, int32_t n);
