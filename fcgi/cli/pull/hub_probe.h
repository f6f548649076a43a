/* What a model on a hub would be here, before its weights are loaded: its small files and the heads
 * of the large ones are fetched into a folder of their own, where each file has its true size and
 * is a hole but for its head. All that only looks at heads (model_open, the memory plan) works on
 * it as on the whole. One thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "fcgi/cli/pull/pull.h"

/* p: after pull_http_ask. Makes `folder`, whose parent exists. *fetched: bytes that came. */
bool hub_probe_make(const struct pull *p, const char *folder, int64_t *fetched, struct err *e);
void hub_probe_remove(const struct pull *p, const char *folder);
