/* A step over the context of a block-diffusion drafter (plan.h: context_plan): the rows' hidden
 * states are joined by fc, and every layer keeps keys and values of them. Called by every thread of
 * a step, after the embeddings, which it does not need. Its input lies in b->q, [T, n_taps * d]. */
#pragma once
#include "engine/cpu/cpu_worker.h"

void context_run(struct worker *w);
