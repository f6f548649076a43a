/* From the last layer to answers: final norm, logits, candidates, log of the sum of exponentials.
 * Called by every thread of a step. */
#pragma once
#include "engine/cpu/cpu_worker.h"

void head_run(struct worker *w);
/* Makes room for this step's wanted rows; before the threads start. */
bool head_reserve(struct backend *b, struct err *e);
/* The same for any step of max_sequences sequences that wants one row of each: at open, so that
 * service never asks for more. head_decode_bytes says how much that is for n sequences. */
bool head_reserve_decode(struct backend *b, struct err *e);
size_t head_decode_bytes(const struct model_plan *plan, int32_t n);
/* Points the caller's rows at the results; after the threads are done. */
void head_publish(const struct backend *b, struct step_row *rows);
int32_t head_chunks(int32_t n_vocab);
