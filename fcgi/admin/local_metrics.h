/* Figures of the engines of models beside the first, for /metrics. */
#pragma once
#include "engine/base/buf.h"

struct worker;

void local_metrics_put(struct buf *b, const struct worker *w);
