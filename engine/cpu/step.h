/* One step of the cpu backend. Owner thread only. */
#pragma once
#include "engine/cpu/cpu_worker.h"

bool step_run(struct backend *b, const struct step *s, struct step_row *rows, struct err *e);
