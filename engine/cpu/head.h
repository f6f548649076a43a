/* From the last layer to answers: final norm, logits, candidates, log of the sum of exponentials.
 * Called by every thread of a step. */
#pragma once
#include "engine/cpu/worker.h"

void head_run(struct worker *w);
/* Makes room for this step's wanted rows; before the threads start. */
bool head_reserve(struct backend *b, struct err *e);
/* Points the caller's rows at the results; after the threads are done. */
void head_publish(const struct backend *b, struct step_row *rows);
int32_t head_chunks(int32_t n_vocab);
