/* The beginning of a next-token layer: x = fc . [norm(embedding), norm(given hidden state)] for
 * each row (plan.h: joint_plan). Called by every thread of a step, after the embeddings; does
 * nothing for other plans. Its input lies in b->q, [T, 2 d], which the first mixer then takes. */
#pragma once
#include "engine/cpu/cpu_worker.h"

void joint_run(struct worker *w);
