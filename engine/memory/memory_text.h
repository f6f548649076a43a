/* Formats a plan: the table of `sluice info`, and the keys of the ready line, --json and the status
 * page. They share one list of keys, so they cannot contradict each other. GB are 10^9 bytes. */
#pragma once
#include "engine/base/buf.h"
#include "engine/memory/memory_rates.h"

/* Members without braces: "strategy":"cpu_only","model_weight_gb":... ; estimate NULL or unknown:
 * null. */
void memory_plan_json(const struct memory_plan *p, const struct memory_estimate *estimate,
                      struct buf *b);
/* Lines for people. */
void memory_plan_table(const struct memory_plan *p, const struct memory_estimate *estimate,
                       struct buf *b);
double memory_overcommit(const struct memory_plan *p); /* total over RAM, or over the memory of the
                                                          device that computes */
