/* The upstreams' figures as Prometheus text, out of the relay's status. Thread: the caller's. */
#pragma once
#include "engine/base/buf.h"

void upstream_metrics_put(struct buf *out, const char *run_dir);
