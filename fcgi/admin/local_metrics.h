/* Figures of the engines of models beside the first, for /metrics. */
#pragma once
#include <stdbool.h>

#include "engine/base/buf.h"

struct worker;

/* open: anyone reads them, so models are named by their rows' numbers. */
void local_metrics_put(struct buf *b, const struct worker *w, bool open);
